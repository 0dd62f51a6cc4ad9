"""What the other ranks learn, and how a job ends, when a rank is lost or gives up."""

from __future__ import annotations

import re

import pytest
from harness.mpirun import RECOVERY, WITH_CODE, Ending, run_to_end

RANKS = 3
LOST = 1
TOLD_WITHIN_S = 2.0
ENDED_WITHIN_S = 10.0

PROLOGUE = f"""
import ctypes, os, signal, subprocess, sys, time
import numpy
import hora
import hora.numpy as hvd
from hora.errors import HorovodInternalError

LOST = {LOST}

def say(text):
    sys.stdout.write(f"rank {{hora.rank()}}: {{text}}\\n")

def told(within_s, since):
    '''Until the session has failed, which it must within the time.'''
    while time.time() < since + within_s:
        try:
            hvd.allreduce(numpy.ones(4), name="after")
        except HorovodInternalError as error:
            say(f"told after {{time.time() - since:.2f}} s: {{error}}")
            return
    say("never told")

hora.init()
hvd.allreduce(numpy.ones(4))
rank = hora.rank()
"""

# How the lost rank ends, and what the others can learn of it.
ENDS = {
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", "ended without notice"),
    "segfault": ("ctypes.string_at(0)", "signal 11"),
    "abort": ("os.abort()", "signal 6"),
    "terminate": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(1)", "signal 15"),
    "_exit": ("os._exit(3)", "ended without notice"),
    "exit": ("sys.exit(3)", "exit code 3"),
    "exit without import": ("exit(3)", "exit code 3"),
    "exit with a text": ("sys.exit('no such file')", "it ended with: no such file"),
    "second SIGTERM": (
        "hora._signals._stop_signals.watch()\n    for _ in range(2):\n"
        "        os.kill(os.getpid(), signal.SIGTERM); time.sleep(0.1)",
        "signal 15",
    ),
    "exception": ("raise ValueError('no such batch')", "ValueError: no such batch"),
    "shutdown at last": (
        "try:\n        raise ValueError('no such batch')\n    finally:\n        hora.shutdown()",
        "it was shut down after ValueError: no such batch",
    ),
}

TOLD_BY_THE_RANK = ("exit", "exit without import", "exit with a text", "exception", "shutdown at last")

# What the others do meanwhile.
PEERS = {
    "in a collective": """
handle = hvd.allreduce_async(numpy.ones(4), name="waited for")
try:
    hvd.synchronize(handle)
except HorovodInternalError as error:
    say(f"told after {time.time() - start:.2f} s: {error}")
""",
    "asleep": """
time.sleep(1.5)
told(0.5, time.time())
""",
    "in Python": """
end = time.time() + 1
while time.time() < end:
    sum(range(1000))
told(1, time.time())
""",
}


def run(program: str, ranks: int = RANKS, limit_s: float = 20, **settings: str) -> Ending:
    return run_to_end(PROLOGUE + program, ranks, limit_s, settings)


def assert_told(ending: Ending, survivors: list[int], *words: str, lost: int = LOST) -> None:
    """Every survivor was told in time, and by itself."""
    for rank in survivors:
        found = re.search(rf"rank {rank}: told after ([0-9.]+) s: (.*)", ending.output)
        assert found, f"rank {rank} was not told\n{ending.output}"
        assert float(found[1]) < TOLD_WITHIN_S, ending.output
        assert re.search(rf"rank {lost} (failed|left the job): ", found[2]), ending.output
        assert all(word in found[2] for word in words), ending.output


def lose_one(end: str, meanwhile: str) -> str:
    text = f"start = time.time()\nif rank == LOST:\n    time.sleep(0.2)\n    {end}\n"
    return text + PEERS[meanwhile] + "os._exit(4)\n"


@pytest.mark.parametrize("split", ["", "1,1,1", "2,1"], ids=["one host", "three hosts", "two hosts"])
@pytest.mark.parametrize("end", ENDS)
def test_survivors_learn_who_was_lost_and_how(end: str, split: str) -> None:
    action, word = ENDS[end]
    ending = run(lose_one(action, "in a collective"), HORA_HOST_SPLIT=split, **RECOVERY)
    # The system tells only those of its host how a process ended.
    is_known = not split or end in TOLD_BY_THE_RANK
    assert_told(ending, [0, 2], word if is_known else "")
    assert ending.seconds < ENDED_WITHIN_S


@pytest.mark.parametrize("meanwhile", PEERS)
def test_survivors_learn_it_whatever_they_do(meanwhile: str) -> None:
    ending = run(lose_one(ENDS["kill"][0], meanwhile), **RECOVERY)
    assert_told(ending, [0, 2], "ended without notice")


def test_survivors_learn_it_without_shared_memory() -> None:
    ending = run(lose_one(ENDS["kill"][0], "in a collective"), HORA_SHARED_MEMORY="0", **RECOVERY)
    assert_told(ending, [0, 2])


# What tells the cause where the launcher ends the survivors: itself, or the rank.
PRINTED = {
    "kill": "signal 9",
    "segfault": "signal 11",
    "abort": "signal 6",
    "terminate": "signal 15",
    "exit": "ends with exit code 3",
    "exit without import": "ends with exit code 3",
    "exit with a text": "no such file",
    "exception": "ValueError: no such batch",
    "shutdown at last": "ValueError: no such batch",
}


@pytest.mark.parametrize("end", ENDS)
def test_plain_mpirun_ends_the_job_and_the_cause_is_printed(end: str) -> None:
    ending = run(lose_one(ENDS[end][0], "in a collective").replace("os._exit(4)", "sys.exit(4)"))
    assert ending.code != 0
    assert ending.seconds < ENDED_WITHIN_S
    assert re.search(rf"rank {LOST}\b|,{LOST}\]", ending.output), ending.output
    if end in PRINTED:
        assert PRINTED[end] in ending.output
    if "ValueError" in ENDS[end][0]:
        assert ending.output.count("Traceback (most recent call last)") == 1, ending.output


@pytest.mark.parametrize("end", ["kill", "exception"])
@pytest.mark.parametrize(("lost", "split"), [(0, ""), (2, ""), (0, "1,2"), (1, "1,2"), (2, "1,2")])
def test_any_rank_may_be_lost(lost: int, split: str, end: str) -> None:
    """Among them the root of agreement, and a rank through which another agrees."""
    program = f"LOST = {lost}\n" + lose_one(ENDS[end][0], "in a collective")
    ending = run(program, HORA_HOST_SPLIT=split, **RECOVERY)
    assert_told(ending, [rank for rank in range(RANKS) if rank != lost], lost=lost)
    assert ending.seconds < ENDED_WITHIN_S


# How a survivor goes on, and its exit code.
AFTERWARDS = {
    "to its end": ("told(3, start)", 0),
    "to an exit code": ("told(3, start)\nsys.exit(5)", 5),
    "with the error": ("time.sleep(0.5)\nhvd.allreduce(numpy.ones(4), name='x')", 1),
    "to another start": (
        "told(3, start)\nhora.shutdown()\ntry:\n    hora.init()\n"
        "except RuntimeError as error:\n    sys.stdout.write(f'refused: {error}\\n')",
        0,
    ),
}


@pytest.mark.parametrize("afterwards", AFTERWARDS)
def test_survivors_end_by_themselves_with_their_own_code(afterwards: str) -> None:
    action, code = AFTERWARDS[afterwards]
    program = f"start = time.time()\nif rank == LOST:\n    {ENDS['kill'][0]}\n{action}\n"
    ending = run_to_end(PROLOGUE + program, RANKS, 20, RECOVERY, WITH_CODE)
    for rank in (0, 2):
        assert f"rank {rank} ended with code {code}" in ending.output
    assert f"rank {LOST} ended with code 137" in ending.output
    assert ending.seconds < ENDED_WITHIN_S
    if afterwards == "to another start":
        assert ending.output.count("refused: ") == 2
        assert "start the job again" in ending.output


IN_THE_MIDDLE = """
block = numpy.ones(1 << 22)
start = time.time()
if rank == LOST:
    import threading
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
try:
    while True:
        start = time.time()
        hvd.allreduce(block, name="large")
except HorovodInternalError as error:
    say(f"told after {time.time() - start:.2f} s: {error}")
os._exit(4)
"""


@pytest.mark.parametrize("split", ["", "1,1,1", "2,1"], ids=["one host", "three hosts", "two hosts"])
def test_killed_in_the_middle_of_a_collective(split: str) -> None:
    assert_told(run(IN_THE_MIDDLE, HORA_HOST_SPLIT=split, **RECOVERY), [0, 2])


def test_news_of_a_peers_failure_are_one_line() -> None:
    program = (
        "if rank == LOST:\n    raise ValueError('no such batch')\nhvd.allreduce(numpy.ones(4), name='x')\n"
    )
    ending = run(program, **RECOVERY)
    assert ending.output.count("Traceback (most recent call last)") == 1, ending.output
    lines = re.findall(
        r"\[hora rank \d/3\] this rank ends, too: .*rank 1 failed: ValueError: no such batch.*", ending.output
    )
    assert len(lines) == RANKS - 1, ending.output


def test_the_code_that_main_returns_is_told() -> None:
    program = """
import os, sys
import hora

def main():
    hora.init()
    if hora.rank() == 1:
        return 7
    try:
        hora.barrier()
    except hora.HorovodInternalError as error:
        sys.stdout.write(f"rank {hora.rank()}: told after 0 s: {error}\\n")
    os._exit(4)

sys.exit(main())
"""
    ending = run_to_end(program, RANKS, 20, RECOVERY)
    assert_told(ending, [0, 2], "exit code 7")


def test_how_a_forked_child_ends_is_not_taken_for_its_parent() -> None:
    program = """
child = os.fork()
if child == 0:
    time.sleep(10)
    os._exit(0)
time.sleep(0.1)
os.kill(child, signal.SIGTERM)
os.waitpid(child, 0)
start = time.time()
if rank == LOST:
    os.kill(os.getpid(), signal.SIGKILL)
told(3, start)
os._exit(4)
"""
    assert_told(run(program, **RECOVERY), [0, 2], "ended without notice")


def test_an_exit_that_somebody_catches_is_none() -> None:
    program = """
try:
    sys.exit(3)
except SystemExit:
    pass
say(hvd.allreduce(numpy.ones(1), name="still here", op=hora.Sum))
"""
    ending = run(program)
    assert ending.code == 0, ending.output
    assert ending.output.count(f"[{RANKS}.]") == RANKS


FORK = """
def ours():
    files = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    kinds = [os.readlink(file) for file in files if os.path.islink(file)]
    return sum(any(word in kind for word in ("pidfd", "event", "memfd", "socket")) for kind in kinds)

hora.shutdown()
without = ours()
hora.init()
assert ours() > without
child = os.fork()
if child == 0:
    os._exit(0 if ours() == without else 9)
say(f"child ended with {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")
listing = ["ls", "-l", "/proc/self/fd"]
program = subprocess.run(listing, close_fds=False, capture_output=True, text=True, timeout=10)
held = [word for word in ("pidfd", "eventfd", "eventpoll", "memfd:hora") if word in program.stdout]
say(f"a program that was started holds {held}")
start = time.time()
child = os.fork()
if child == 0:
    time.sleep(4)
    os._exit(0)
if rank == LOST:
    os.kill(os.getpid(), signal.SIGKILL)
told(3, start)
os._exit(4)
"""


@pytest.mark.parametrize("split", ["", "1,1,1"], ids=["one host", "three hosts"])
def test_forked_children_keep_nothing_open_and_hide_no_death(split: str) -> None:
    ending = run(FORK, HORA_HOST_SPLIT=split, **RECOVERY)
    assert ending.output.count("child ended with 0") == RANKS, ending.output
    assert ending.output.count("a program that was started holds []") == RANKS, ending.output
    assert_told(ending, [0, 2])


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("split", ["", "1,1,1", "2,1"], ids=["one host", "three hosts", "two hosts"])
def test_a_rank_that_is_lost_while_the_job_ends_holds_nobody_up(split: str, lost: int) -> None:
    program = """
start = time.time()
hora.shutdown()
sys.stdout.write(f"rank {rank}: left after {time.time() - start:.2f} s\\n")
"""
    ending = run(program, HORA_FAULTS=f"in_departure:{lost}:1:kill", HORA_HOST_SPLIT=split, **RECOVERY)
    left = re.findall(r"left after ([0-9.]+) s", ending.output)
    assert len(left) == RANKS - 1, ending.output
    assert all(float(seconds) < TOLD_WITHIN_S for seconds in left), ending.output
    told = ending.output.count(f"the job has not ended in order: rank {lost}: ")
    assert told == RANKS - 1, ending.output
    assert ending.seconds < ENDED_WITHIN_S
