"""Ways to end a process that uses hora, and what it may lack while it runs."""

from __future__ import annotations

import re
import time

import pytest
from harness.mpirun import RECOVERY, Ending, run_to_end

PROLOGUE = """
import atexit, os, resource, sys, time
import numpy
import hora
from hora.errors import HorovodInternalError

def say(text):
    sys.stdout.write(f"{text}\\n")

"""
STARTED = """
hora.init()
rank, size = hora.rank(), hora.size()
hora.barrier()
"""


def run(program: str, ranks: int = 2, limit_s: float = 20, **settings: str) -> Ending:
    return run_to_end(PROLOGUE + program, ranks, limit_s, settings)


PENDING = "handle = hora.allreduce_async(numpy.ones(4), name=f'nobody else makes this {rank}')\n"
ENDS = {
    "without shutdown": "",
    "without shutdown and with work pending": PENDING,
    "shutdown with work pending": PENDING + "hora.shutdown()\n",
    "shutdown in an exit handler": "atexit.register(hora.shutdown)\n",
    "shutdown in an exit handler and with work pending": PENDING + "atexit.register(hora.shutdown)\n",
    "started anew with work pending": PENDING + "hora.shutdown()\nhora.init()\n",
}


@pytest.mark.parametrize("end", ENDS)
def test_ends_soon(end: str) -> None:
    start = time.time()
    ending = run(STARTED + "begun = time.time()\n" + ENDS[end] + "say(f'begun at {begun}')\n")
    assert ending.code == 0, ending.output
    begun = [float(text) for text in re.findall(r"begun at ([0-9.]+)", ending.output)]
    assert len(begun) == 2
    assert start + ending.seconds - min(begun) < 5


def test_what_is_pending_at_shutdown_fails() -> None:
    program = (
        STARTED
        + PENDING
        + """
hora.shutdown()
try:
    hora.synchronize(handle)
except HorovodInternalError as error:
    say(f"told: {error}")
"""
    )
    ending = run(program)
    assert len(re.findall(r"told: allreduce 'nobody else makes this \d'.*", ending.output)) == 2, (
        ending.output
    )


def test_the_job_ends_though_others_are_asleep() -> None:
    """One rank raises, one is in a collective, one sleeps."""
    program = (
        STARTED
        + """
if rank == 1:
    raise RuntimeError("first")
if rank == 0:
    hora.allreduce(numpy.ones(4))
time.sleep(120)
"""
    )
    ending = run(program, 3)
    assert ending.code != 0
    assert ending.seconds < 15
    assert ending.output.count("RuntimeError: first") >= 1
    assert ending.output.count("Traceback (most recent call last)") == 1


def test_the_job_ends_with_a_code_that_nothing_told_hora() -> None:
    """MPI is not finalised then, for that would wait for those that sleep."""
    ending = run(STARTED + "if rank == 1:\n    raise SystemExit(3)\ntime.sleep(120)\n", 3)
    assert ending.code == 3
    assert ending.seconds < 15


AFTER_AN_EXCEPTION = """
try:
    if rank == 1:
        try:
            raise KIND("bytes \\udcff of a name")
        finally:
            hora.shutdown()
    hora.synchronize(hora.allreduce_async(numpy.ones(4), name="x"))
except KIND:
    pass
except HorovodInternalError as error:
    say(f"told: {error}")
"""


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("ValueError", r"down after ValueError: bytes \\udcff of a name"),
        ("StopIteration", "down$"),  # an ordinary way out of a loop
    ],
)
def test_shutdown_on_the_way_out_tells_the_exception(kind: str, reason: str) -> None:
    ending = run(STARTED + AFTER_AN_EXCEPTION.replace("KIND", kind))
    assert ending.code == 0
    pattern = rf"told: allreduce 'x': rank 1 left the job: it was shut {reason}"
    assert re.search(pattern, ending.output, re.MULTILINE)


def test_the_rank_that_fails_before_any_collective_is_named() -> None:
    program = "hora.init()\ntime.sleep(1)\nassert hora.rank() != 2\ntime.sleep(120)\n"
    ending = run(program, 4, 30)
    assert ending.code != 0
    assert ending.seconds < 20
    assert "AssertionError" in ending.output
    assert re.search(r",2\]|rank 2\b", ending.output), ending.output


def test_a_shared_tensor_that_does_not_fit_is_a_message_and_the_job_goes_on() -> None:
    program = (
        STARTED
        + """
try:
    hora.numpy.shared_empty(1 << 20, numpy.float64)
except RuntimeError as error:
    say(f"told: {error}")
assert hora.allreduce(numpy.ones(1), op=hora.Sum)[0] == size
"""
    )
    ending = run("import hora.numpy\n" + program, HORA_SHARED_HEAP_BYTES=str(1 << 20))
    assert ending.code == 0, ending.output
    told = re.findall(r"told: .*8388608 bytes.*1048576.*HORA_SHARED_HEAP_BYTES", ending.output)
    assert len(told) == 2, ending.output


def test_too_little_working_memory_is_a_message() -> None:
    program = (
        STARTED
        + """
arrays = [numpy.ones(16 << 20, numpy.float32) for _ in range(2)]
if rank == 1:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), used + (48 << 20)))
try:
    hora.grouped_allreduce_(arrays, name="large")
except HorovodInternalError as error:
    say(f"told: {error}")
os._exit(3)
"""
    )
    ending = run(program, HORA_SHARED_MEMORY="0", HORA_FUSION_THRESHOLD=str(1 << 30), **RECOVERY)
    told = re.findall(r"told: .*'large.*134217728 bytes of working memory cannot be had", ending.output)
    assert len(told) == 2, ending.output
