"""Starts ranks: the launcher's command, the environment of all contenders, and launches that take turns."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "bench"

# "keepmalloc", for every contender: memory once obtained is never given back, so that page faults, which are
# very expensive on some virtual machines, are not taken for the cost of an algorithm.
KEEPMALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_ARENA_MAX": "1"}
# Open MPI 4 has the first name, 5 the second; each ignores the other.
WITHOUT_CMA = {
    f"OMPI_MCA_btl_{name}_single_copy_mechanism": "none" for name in ("vader", "sm")
}  # CMA: a process reads another's memory by a system call
ONE_THREAD = {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}  # and stacks, should it crash
FAST_HOROVOD = {"HOROVOD_CYCLE_TIME": "0.1"}


@dataclass(frozen=True)
class Launch:
    """Contenders that share their processes, and what those processes need."""

    contenders: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    module: str = ""  # without which the launch is left out


class LaunchFailed(Exception):
    """Ranks that did not end well; the text has the end of their output."""


def rank_and_size() -> tuple[int, int]:
    """Return what the launcher says, (0, 1) without one."""
    names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK"), ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    rank, size = (next((os.environ[name] for name in pair if name in os.environ), None) for pair in names)
    return (0, 1) if rank is None or size is None else (int(rank), int(size))


def under_launcher() -> bool:
    return "OMPI_COMM_WORLD_SIZE" in os.environ or "PMI_SIZE" in os.environ


def mpirun(ranks: int) -> list[str]:
    """Return the launcher's part of a command; ranks are not bound, for each has more than one thread."""
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "-np", str(ranks), "--bind-to", "none", "--oversubscribe", *as_root]


def run(command: Sequence[str], limit_s: float, environment: Mapping[str, str] | None = None) -> str:
    """Run a command with one thread per rank, and return its output; raise `LaunchFailed` if it fails."""
    words = " ".join(command)
    process = subprocess.Popen(
        command,
        env={**os.environ, **KEEPMALLOC, **ONE_THREAD, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except BaseException as error:
        process.terminate()  # mpirun ends its ranks
        try:
            output, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise LaunchFailed(f"{words}: not done after {limit_s:.0f} s\n{tail(output)}") from None
        raise
    if process.returncode:
        raise LaunchFailed(f"{words}: exit status {process.returncode}\n{tail(output)}")
    return output


def twice(attempt: Callable[[], Result]) -> Result:
    """Make an attempt, another if it fails: one crash is told, but does not cost what was measured before."""
    try:
        return attempt()
    except LaunchFailed as failure:
        print(f"# failed, is tried once more: {failure}", flush=True)
        return attempt()


def tail(text: str, lines: int = 40) -> str:
    return "\n".join(text.splitlines()[-lines:])


def installed(launches: Sequence[Launch]) -> list[Launch]:
    """Return the launches whose module is there, and say in one line which are not."""
    found = [each for each in launches if not each.module or importlib.util.find_spec(each.module)]
    for each in launches:
        if each not in found:
            print(f"# {' '.join(each.contenders)}: left out, {each.module} is not installed", flush=True)
    return found


def alternate(
    script: Path,
    arguments: Sequence[str],
    launches: Sequence[Launch],
    ranks: int,
    rounds: int,
    limit_s: float,
    *,
    start: Sequence[str] = (),
) -> list[list[Any]]:
    """Let launches of a script take turns, and return what each wrote to the file that --json named.

    Contenders that would disturb each other in one process, and settings that hold for a process, are
    compared like this: whatever the machine does for longer than a launch meets them alike. `start` is the
    launcher's part of the command where `mpirun` is not enough.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # and end what was started
    results: list[list[Any]] = []
    waiting = list(launches)
    with tempfile.TemporaryDirectory(prefix="hora-bench-") as folder:
        file = Path(folder) / "rows.json"
        for number in range(rounds):
            for launch in waiting:
                names = " ".join(launch.contenders)
                print(f"  round {number + 1} of {rounds}, {ranks} ranks: {names}", flush=True)
                words = [*arguments, "--contenders", *launch.contenders, "--json", str(file)]
                command = [*(start or mpirun(ranks)), sys.executable, str(script), *words]
                output = twice(partial(run, command, limit_s, launch.environment))
                remarks = [line for line in output.splitlines() if line.startswith("# ") and not number]
                print(*remarks, sep="\n", end="\n" if remarks else "", flush=True)
                results.append(json.loads(file.read_text()))
            waiting = waiting[1:] + waiting[:1]
    return results


def write_json(path: Path | None, content: Any) -> None:
    """Write figures where a path is given."""
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")
