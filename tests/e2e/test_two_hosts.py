"""The bed of two hosts: what ranks see there, what is measured there, and that nothing of it stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness.mpirun import Ending, rank_environment, run_script

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "python"
BED, TWO_HOSTS = BENCHMARKS / "bed.py", BENCHMARKS / "two_hosts.py"
SKIPPED = 77
COLLECTIVES = """
import sys
import numpy as np
import hora

hora.init()
rank, size, per_host = hora.rank(), hora.size(), int(sys.argv[1])
across = hora.add_process_set([0, per_host]) if per_host > 1 else hora.global_process_set  # one rank of each
assert (size, hora.local_size(), hora.cross_size()) == (2 * per_host, per_host, 2)
assert (hora.local_rank(), hora.cross_rank()) == (rank % per_host, rank // per_host)
for count in (1, 1000, 300_000):
    pattern = np.arange(count, dtype=np.float32) % 61
    total = pattern * sum(range(1, size + 1))
    assert (hora.allreduce(pattern * (rank + 1), op=hora.Sum) == total).all()
    sent = hora.broadcast(pattern * (rank + 1), root_rank=size - 1)
    assert (sent == pattern * size).all()
    own = np.full((rank + 1, count), rank, np.float32)
    gathered = hora.allgather(own)
    assert gathered.shape == (sum(range(1, size + 1)), count)
    assert (gathered[:, 0] == np.repeat(np.arange(size), np.arange(1, size + 1))).all()
    parts = np.repeat(np.arange(size, dtype=np.float32) + 10 * rank, count)
    assert (hora.alltoall(parts) == np.repeat(np.arange(size) * 10 + rank, count)).all()
    scattered = hora.reducescatter(np.repeat(np.arange(size, dtype=np.float32), count), op=hora.Sum)
    assert (scattered == np.full(count, rank * size)).all()
    if across.included():
        summed = hora.allreduce(pattern * (rank + 1), op=hora.Sum, process_set=across)
        assert (summed == pattern * (per_host + 2)).all()
hora.barrier()
hora.shutdown()
print("right", flush=True)
"""


def run_python(program: Path, *arguments: object, environment: dict[str, str] | None = None) -> Ending:
    """Run one of the programs; skip the test where there can be no bed."""
    words = [str(program), *map(str, arguments)]
    script = f"import os, sys\nos.execv(sys.executable, [sys.executable, *{words}])\n"
    ending = run_script(script, 0, limit_s=50, environment=environment)
    if ending.code == SKIPPED:
        pytest.skip(ending.output.strip())
    return ending


def beds() -> str:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("per_host", [1, 2])
def test_collectives_are_right_between_hosts(per_host: int) -> None:
    ranks = ("--ranks-per-host", per_host)
    ending = run_python(BED, *ranks, sys.executable, "-c", COLLECTIVES, per_host)
    assert ending.code == 0, ending.output
    assert ending.output.count("right") == 2 * per_host, ending.output
    assert ending.left == []


def test_exit_code_of_the_command_is_that_of_the_bed() -> None:
    assert run_python(BED, "sh", "-c", "exit 3").code == 3


@pytest.mark.timeout(60)
def test_benchmark_compares_with_the_limit_of_the_link(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    ending = run_python(TWO_HOSTS, "--quick", "--json", tmp_path / "two_hosts.json")
    assert ending.code == 0, ending.output
    rows = json.loads((tmp_path / "two_hosts.json").read_text())
    if "skipped" in rows:
        pytest.skip(rows["skipped"])
    found = {(row["ranks_per_host"], row["contender"]) for row in rows}
    assert found == {(count, name) for count in (1, 2) for name in ("tcp", "hora", "mpi")}
    for row in rows:
        assert row["ranks"] == 2 * row["ranks_per_host"]
        assert row["wrong"] == 0
        assert 0 < row["p10_us"] <= row["p50_us"] <= row["p90_us"]
    assert ending.left == []


def test_benchmark_says_why_it_skips(tmp_path: Path) -> None:
    file = tmp_path / "two_hosts.json"
    ending = run_python(TWO_HOSTS, "--json", file, environment={"PATH": str(tmp_path)})
    reason = "apt-get install" if os.geteuid() == 0 else "only root"
    assert ending.code == 0
    assert len(ending.output.splitlines()) == 1
    assert ending.output.startswith("two hosts: skipped, because")
    assert reason in json.loads(file.read_text())["skipped"]
    targets = run_python(BENCHMARKS / "targets.py", tmp_path)
    assert any("two hosts" in line and "not measured" in line for line in targets.output.splitlines())
    run_python(BENCHMARKS / "report.py", tmp_path)
    assert reason in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_an_interrupted_bed(number: signal.Signals) -> None:
    """Of a killed one, the next bed removes what is left."""
    command = [sys.executable, str(BED), "sh", "-c", "echo up; exec sleep 60"]
    environment = rank_environment(PYTHONUNBUFFERED="1")
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as bed:
        assert bed.stdout is not None
        try:
            said = [bed.stdout.readline() for _ in range(2)]
            if "skipped" in said[0]:
                pytest.skip(said[0].strip())
            assert said == ["up\n", "up\n"]
            bed.send_signal(number)
            bed.wait(20)
        finally:
            bed.kill()
    if number == signal.SIGKILL:
        assert f"hora-bed-{bed.pid}-" in beds()
        assert run_python(BED, "true").code == 0
    assert f"hora-bed-{bed.pid}-" not in beds()
