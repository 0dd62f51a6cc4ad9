"""The benchmark programs, on small sizes and for a few seconds."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from harness.mpirun import mpirun, rank_environment, run_script

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks" / "python"
CPP_SCALING = ROOT / "build" / "dev" / "benchmarks" / "cpp" / "scaling"
TIMES = ("p10_us", "p50_us", "p90_us")
SWEEP_FIELDS = {"op", "bytes", "dtype", "ranks", "contender", *TIMES, "p99_us"}
SWEEP_FIELDS |= {"algbw_GBps", "busbw_GBps", "wrong", "one_way_us"}


def run_benchmark(name: str, *arguments: object, ranks: int = 2, limit_s: float = 90) -> str:
    """Run a program on some ranks; with none it is one that starts its ranks itself."""
    words = [name, *map(str, arguments)]
    script = (
        f"import runpy, sys\nsys.path.insert(0, {str(BENCHMARKS)!r})\nsys.argv = {words}\n"
        f"runpy.run_path({str(BENCHMARKS / name)!r}, run_name='__main__')\n"
    )
    ending = run_script(script, ranks, limit_s=limit_s)
    assert ending.code == 0, ending.output
    assert ending.left == []
    return ending.output


def read_rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text())
    for row in rows:
        assert 0 < row["p10_us"] <= row["p50_us"] <= row["p90_us"]
    return rows


@pytest.mark.timeout(120)
def test_sweep_reports_every_contender_with_right_results(tmp_path: Path) -> None:
    installed = {"hora-numpy": "hora", "mpi": "mpi4py", "hora": "torch", "gloo": "torch"}
    arguments = ("--sizes", 4, "1K", "64K", "--budget", 2, "--json", tmp_path / "sweep.json")
    output = run_benchmark("sweep.py", *arguments, "--contenders", *installed)
    rows = read_rows(tmp_path / "sweep.json")
    expected = {name for name, module in installed.items() if importlib.util.find_spec(module)}
    assert {row["contender"] for row in rows} == expected
    assert len(rows) == len(expected) * 5 * 3
    for row in rows:
        assert row.keys() == SWEEP_FIELDS
        assert row["wrong"] == 0
        assert row["ranks"] == 2
    for left_out in installed.keys() - expected:
        assert f"{left_out} is left out" in output


@pytest.mark.timeout(120)
def test_sweep_starts_its_ranks_and_alternates_launches(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("mpi4py")
    arguments = ("--ops", "allreduce", "--dtypes", "float32", "bfloat16", "--json", tmp_path / "sweep.json")
    contenders = ("--contenders", "hora", "mpi", "mpi-no-cma")
    run_benchmark("sweep.py", "--quick", *arguments, *contenders, ranks=0)
    rows = read_rows(tmp_path / "sweep.json")
    found = {(row["contender"], row["dtype"]) for row in rows}
    assert found == {("hora", "float32"), ("hora", "bfloat16"), ("mpi", "float32"), ("mpi-no-cma", "float32")}
    assert all(row["wrong"] == 0 for row in rows)


@pytest.mark.timeout(120)
def test_small_tensors_compares_single_and_grouped_calls(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("mpi4py")
    arguments = ("--quick", "--contenders", "hora", "mpi", "--json", tmp_path / "rows.json")
    run_benchmark("small_tensors.py", *arguments, ranks=0)
    found = {(row["contender"], row["mode"]) for row in read_rows(tmp_path / "rows.json")}
    assert found == {("hora", "single"), ("hora", "grouped"), ("mpi", "single")}


@pytest.mark.timeout(120)
def test_training_reports_the_overhead_over_independent_processes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    arguments = ("--quick", "--workloads", "tensors100", "--json", tmp_path / "rows.json")
    run_benchmark("training.py", *arguments, "--contenders", "independent", "hora", "ddp", "idle", ranks=0)
    rows = {row["contender"]: row for row in read_rows(tmp_path / "rows.json")}
    assert rows.keys() == {"independent", "hora", "ddp", "idle"}
    assert rows["independent"]["overhead_percent"] == 0
    assert all(len(row["overheads_percent"]) == 1 for row in rows.values())


@pytest.mark.timeout(120)
def test_scaling_climbs_from_parameter_servers_to_allreduce(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("mpi4py")
    ladder = ("ps-async", "ps-sync", "hora")
    run_benchmark("scaling.py", "--quick", "--contenders", *ladder, "--json", tmp_path / "rows.json", ranks=0)
    rows = read_rows(tmp_path / "rows.json")
    assert {(row["contender"], row["ranks"]) for row in rows} == {
        (name, ranks) for name in ("independent", *ladder) for ranks in (1, 2)
    }
    assert all(row["efficiency"] > 0 for row in rows)
    assert all(row["busbw_GBps"] for row in rows if row["ranks"] == 2 and row["contender"] in ladder)
    if importlib.util.find_spec("matplotlib"):
        assert (tmp_path / "rows.png").stat().st_size > 0


@pytest.mark.timeout(120)
def test_idle_reports_every_rank(tmp_path: Path) -> None:
    run_benchmark("idle.py", "--quick", "--settle", 0.5, "--json", tmp_path / "idle.json")
    figures = json.loads((tmp_path / "idle.json").read_text())
    assert figures.keys() == {"ranks", "seconds", "percent_of_core", "worst"}
    assert len(figures["percent_of_core"]) == figures["ranks"] == 2
    assert figures["worst"] == max(figures["percent_of_core"])


@pytest.mark.timeout(120)
def test_submit_reports_every_way(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run_benchmark("submit.py", "--quick", "--json", tmp_path / "submit.json")
    figures = json.loads((tmp_path / "submit.json").read_text())["us_per_tensor"]
    assert figures.keys() == {"single", "single_core", "group", "group_attributes", "group_numpy"}


def test_targets_and_report_judge_what_is_there(tmp_path: Path) -> None:
    rows = [
        {"op": "allreduce", "dtype": "float32", "ranks": 2, "bytes": 4, "contender": name, "one_way_us": None}
        | {"p10_us": time, "p50_us": time, "p90_us": time, "p99_us": 4 * time, "busbw_GBps": 1.0}
        for name, time in (("hora", 10.0), ("gloo", 150.0))
    ]
    (tmp_path / "sweep_2.json").write_text(json.dumps(rows))
    lines = run_benchmark("targets.py", tmp_path, ranks=0).splitlines()
    assert any("against Gloo" in line and "15x" in line and " met" in line for line in lines)
    assert any("p99 by median" in line and "4x" in line and "missed" in line for line in lines)
    assert any("two hosts" in line and "not measured" in line for line in lines)
    run_benchmark("report.py", tmp_path, ranks=0)
    report = (tmp_path / "report.html").read_text()
    assert '<td class="met">met</td>' in report
    assert "allreduce of float32 from Python, 2 ranks, us" in report


@pytest.mark.timeout(120)
@pytest.mark.skipif(not CPP_SCALING.exists(), reason="the C++ benchmarks are not built")
def test_cpp_scaling_compares_every_collective_with_mpi(tmp_path: Path) -> None:
    words = [*mpirun(2), str(CPP_SCALING), "--quick", f"--benchmark_out={tmp_path / 'rows.json'}"]
    script = f"import subprocess, sys\nsys.exit(subprocess.call({words}))\n"
    ending = run_script(script, 0, limit_s=90, environment=rank_environment())
    assert ending.code == 0, ending.output
    rows = json.loads((tmp_path / "rows.json").read_text())["benchmarks"]
    operations = {row["name"].split("/")[0] for row in rows}
    assert operations == {"allreduce", "broadcast", "allgather", "alltoall", "reducescatter"}
    for row in rows:
        for name in ("hora", "mpi", "memory"):
            assert 0 < row[f"{name}_p10_us"] <= row[f"{name}_p50_us"] <= row[f"{name}_p90_us"]
        assert row["one_way_us"] > 0
