"""Starting ranks with `mpirun`, for the launcher of the tests and for tests of whole scripts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import processes

SHARED_MEMORY = Path("/dev/shm")
# Open MPI 4.1 and 5 then leave the other ranks alone when one dies, as other launchers do.
RECOVERY = {"OMPI_MCA_orte_enable_recovery": "1", "PRTE_MCA_prte_enable_recovery": "1"}


# Put before a rank's command; says how that ended.
WITH_CODE = (
    *("sh", "-c"),
    '"$@"; code=$?; echo "rank $OMPI_COMM_WORLD_RANK ended with code $code"; exit $code',
    "sh",
)


def mpirun(ranks: int) -> list[str]:
    """Return the launcher's part of a command that starts `ranks` ranks on this machine."""
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *as_root, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]


def rank_environment(**settings: str) -> dict[str, str]:
    """Return this environment with `settings`, one thread per rank and no inherited HORA_* settings."""
    inherited = ("HORA_", "OMPI_", "PMIX_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(inherited)}
    return {**kept, "OMP_NUM_THREADS": "1", **settings}


@dataclass(frozen=True)
class Ending:
    """How a script ended; `code` is None if it hung, `left` holds processes that outlived it."""

    code: int | None
    output: str
    seconds: float
    left: list[int]


def run_script(
    script: str,
    ranks: int,
    limit_s: float = 40.0,
    python: Path | str = sys.executable,
    environment: Mapping[str, str] | None = None,
    under: Sequence[str] = (),
) -> Ending:
    """Run the text of a Python script on `ranks` ranks (0: without `mpirun`), then end what is left of it.

    If it hangs, the output ends with the stacks of all its processes.
    """
    mark = uuid.uuid4().hex
    command = [*(mpirun(ranks) if ranks else []), *under, str(python), "-c", script]
    settings = {
        processes.MARK: mark,
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        **(environment or {}),
    }
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        env=rank_environment(**settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
        left = processes.wait_until_gone(mark, 5)
        return Ending(process.returncode, output, time.monotonic() - start, left)
    except subprocess.TimeoutExpired:
        return Ending(None, print_stacks_and_end(process, mark), time.monotonic() - start, [])
    finally:
        processes.end_all(mark)


def shared_memory() -> set[Path]:
    """Return what lies in shared memory, but for what Open MPI leaves when a rank ends without it."""
    return {path for path in SHARED_MEMORY.iterdir() if not path.name.startswith(("vader_", "sm_"))}


def run_to_end(
    script: str, ranks: int, limit_s: float, environment: Mapping[str, str], under: Sequence[str] = ()
) -> Ending:
    """Run a script that has to end by itself and to leave no process and no shared memory."""
    before = shared_memory()
    ending = run_script(script, ranks, limit_s, environment=environment, under=under)
    print(f"{ending.seconds:.1f} s, code {ending.code}\n{ending.output}")
    assert ending.code is not None, f"hangs\n{ending.output}"
    assert ending.left == []
    assert shared_memory() <= before
    return ending


def print_stacks_and_end(process: subprocess.Popen[str], mark: str) -> str:
    """Make Python's fault handler print the stacks of a hanging script; return all output."""
    for pid in processes.marked(mark):
        with contextlib.suppress(OSError):
            if "mpirun" not in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGABRT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=5)[0]
    processes.end_all(mark)
    return process.communicate()[0]
