"""What is told when ranks wait for others for long."""

from __future__ import annotations

import re

import pytest
from harness.mpirun import RECOVERY, Ending, run_to_end

PROLOGUE = """
import ctypes, os, signal, subprocess, sys, threading, time
import numpy
import hora
import hora.numpy as hvd
from hora.errors import HorovodInternalError

def say(text):
    sys.stdout.write(f"rank {hora.rank()}: {text}\\n")

def summed(name):
    return hvd.allreduce(numpy.ones(1), name=name, op=hora.Sum)[0]

def take_a_nap(seconds):
    '''With the interpreter lock.'''
    end = time.time() + seconds
    while time.time() < end:
        ctypes.PyDLL(None).usleep(200_000)

def stop_for(seconds):
    '''This process stops, another lets it go on.'''
    subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)

hora.init()
rank, size = hora.rank(), hora.size()
hora.barrier()
start = time.time()
"""


def run(program: str, ranks: int = 3, limit_s: float = 25, **settings: str) -> Ending:
    return run_to_end(PROLOGUE + program, ranks, limit_s, settings)


def notices(ending: Ending) -> list[str]:
    """Each with the indented lines below it."""
    return re.findall(r"stalled:.*\n(?: +.*\n)*", ending.output)


LATE = """
if rank == 2:
    take_a_nap(NAP)
assert summed("a") == size
if rank != 0:
    assert hvd.broadcast(numpy.ones(1), 1, name="b")[0] == 1
else:
    hvd.broadcast(numpy.zeros(1), 1, name="b")
"""


@pytest.mark.parametrize("split", ["", "1,1,1", "2,1"], ids=["one host", "three hosts", "two hosts"])
def test_notice_has_the_calls_the_missing_ranks_and_what_they_do(split: str) -> None:
    program = LATE.replace("NAP", "3.5")
    ending = run(program, HORA_STALL_WARNING_SECONDS="2", HORA_HOST_SPLIT=split)
    assert ending.code == 0, ending.output
    found = notices(ending)
    assert 1 <= len(found) <= 2, ending.output
    for notice in found:
        assert re.search(r"allreduce 'a' has waited [234] s for rank 2; made by ranks 0,1", notice), notice
        assert "in take_a_nap" in notice
        assert "rank 0 is" not in notice and "rank 1 is" not in notice


@pytest.mark.parametrize(("warning", "nap", "least", "most"), [(2, 8.2, 3, 4), (20, 3, 0, 0), (0, 3, 0, 0)])
def test_one_notice_in_each_interval(warning: int, nap: float, least: int, most: int) -> None:
    program = LATE.replace("rank == 2", "rank == 1").replace("NAP", str(nap))
    # Without effect, but where ours would not be read.
    settings = {"HORA_STALL_WARNING_SECONDS": str(warning), "HOROVOD_STALL_CHECK_TIME_SECONDS": "1"}
    ending = run(program, 2, **settings)
    assert ending.code == 0, ending.output
    assert least <= len(notices(ending)) <= most, ending.output


def test_names_that_only_some_ranks_use_are_listed_together() -> None:
    program = """
def begin(name):
    return hvd.allreduce_async(numpy.ones(1), name=name, op=hora.Sum)

handles = [begin(f"only {rank}")]
time.sleep(2.2)
handles += [begin(f"only {other}") for other in range(size) if other != rank]
for handle in handles:
    hvd.synchronize(handle)
"""
    ending = run(program, HORA_STALL_WARNING_SECONDS="1")
    assert ending.code == 0, ending.output
    first = notices(ending)[0]
    for rank, others in enumerate(["1,2", "0,2", "0,1"]):
        line = rf"allreduce 'only {rank}' has waited \d s for ranks {others}; made by rank {rank}"
        assert re.search(line, first), first


@pytest.mark.parametrize("split", ["", "1,1,1,1"], ids=["one host", "four hosts"])
def test_the_job_ends_after_the_time_and_all_blame_the_same_rank(split: str) -> None:
    program = """
if rank == 3:
    time.sleep(5)
try:
    summed("a")
except HorovodInternalError as error:
    say(f"told after {time.time() - start:.1f} s: {error}")
os._exit(4)
"""
    ending = run(
        program,
        4,
        HORA_STALL_ABORT_SECONDS="3",
        HORA_STALL_WARNING_SECONDS="0",
        HORA_HOST_SPLIT=split,
        **RECOVERY,
    )
    for rank in range(4):
        found = re.search(rf"rank {rank}: told after ([0-9.]+) s: (.*)", ending.output)
        assert found, ending.output
        assert "allreduce 'a' has waited for rank 3 for 3 s" in found[2]
        assert float(found[1]) < (5.5 if rank < 3 else 7)


BARRIER = """
if rank == 3:
    END
try:
    hora.barrier()
except HorovodInternalError as error:
    say(f"told after {time.time() - start:.1f} s: {error}")
time.sleep(1)
os._exit(4)
"""


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("time.sleep(6)", r"barrier.* has waited for rank 3 for 3 s"),
        ("os.kill(os.getpid(), signal.SIGKILL)", r"rank 3 failed: it ended without notice"),
    ],
    ids=["late", "killed"],
)
def test_all_blame_the_rank_that_misses_in_a_barrier(end: str, reason: str) -> None:
    settings = {"HORA_STALL_ABORT_SECONDS": "3", "HORA_STALL_WARNING_SECONDS": "0"}
    ending = run(BARRIER.replace("END", end), 4, **settings, **RECOVERY)
    for rank in range(3):
        found = re.search(rf"rank {rank}: told after ([0-9.]+) s: (.*)", ending.output)
        assert found, ending.output
        assert re.search(reason, found[2]), found[2]
        assert float(found[1]) < 5.5


STOPPED = """
if rank == STOPPED:
    stop_for(3.5)
for step in range(3):
    assert summed(f"step {step}") == size
say("right")
"""


@pytest.mark.parametrize("stopped", [0, 2])
def test_a_stopped_rank_is_named_and_the_job_goes_on(stopped: int) -> None:
    ending = run(STOPPED.replace("STOPPED", str(stopped)), HORA_STALL_WARNING_SECONDS="1")
    assert ending.code == 0, ending.output
    assert ending.output.count("right") == 3
    assert re.search(rf"rank {stopped}\b.* does not answer: its process is stopped", ending.output), (
        ending.output
    )


def test_nothing_is_said_of_ranks_behind_one_that_is_stopped() -> None:
    """Rank 2 has made the call, but can tell so only through rank 1."""
    ending = run(STOPPED.replace("STOPPED", "1"), HORA_STALL_WARNING_SECONDS="1", HORA_HOST_SPLIT="1,2")
    assert ending.code == 0, ending.output
    notice = notices(ending)[0]
    assert "has waited 1 s for rank 1 and perhaps rank 2; made by rank 0" in notice
    assert "rank 1 does not answer: its process is stopped" in notice
    assert "rank 2 cannot be asked, because rank 1 does not answer" in notice


@pytest.mark.parametrize("stopped", [0, 1, 2])
def test_a_job_with_a_stopped_rank_ends_after_the_time_to_abort(stopped: int) -> None:
    program = f"""
if rank == {stopped}:
    stop_for(12)
try:
    summed("a")
except HorovodInternalError as error:
    say(f"told after {{time.time() - start:.2f}} s: {{error}}")
time.sleep(2)  # the others may find out a little later
os._exit(4)
"""
    ending = run(program, HORA_STALL_WARNING_SECONDS="0", HORA_STALL_ABORT_SECONDS="3", **RECOVERY)
    for rank in {0, 1, 2} - {stopped}:
        found = re.search(rf"rank {rank}: told after ([0-9.]+) s: (.*)", ending.output)
        assert found, ending.output
        assert re.search(rf"rank {stopped}\b", found[2]), ending.output
        assert float(found[1]) < 11


WITHIN_A_COLLECTIVE = """
if rank == 1:
    threading.Timer(0.3, stop_for, (3.5,)).start()
block = numpy.ones(1 << 21)
latest = 0
while latest < 5:
    assert hvd.allreduce(block, name="large", op=hora.Sum)[-1] == size
    latest = hvd.allreduce(numpy.array([time.time() - start]), op=hora.Max)[0]
"""


@pytest.mark.parametrize("split", ["", "1,2"], ids=["one host", "two hosts"])
def test_a_rank_that_stops_within_a_collective_is_named(split: str) -> None:
    ending = run(WITHIN_A_COLLECTIVE, HORA_STALL_WARNING_SECONDS="1", HORA_HOST_SPLIT=split)
    assert ending.code == 0, ending.output
    assert re.search(r"rank 1\b.* does not answer: its process is stopped", ending.output), ending.output


WITH_OWN_HASH_SEED = """
import os, sys
if "PYTHONHASHSEED" not in os.environ:
    os.environ["PYTHONHASHSEED"] = os.environ["OMPI_COMM_WORLD_RANK"]
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
"""
ANY_ORDER = """
names = {f"parameter {number}" for number in range(20)}
for step in range(3):
    handles = {}
    for name in names:
        handles[name] = hvd.allreduce_async(numpy.full(2, float(rank)), name=name, op=hora.Sum)
    for name, handle in handles.items():
        assert hvd.synchronize(handle)[0] == 1
say(f"equal, beginning with {next(iter(names))}")
"""


def test_pairing_does_not_depend_on_the_order_of_dictionaries() -> None:
    ending = run_to_end(WITH_OWN_HASH_SEED + PROLOGUE + ANY_ORDER, 2, 20, {})
    assert ending.code == 0, ending.output
    assert len(set(re.findall(r"equal, beginning with .*", ending.output))) == 2, ending.output


WEIGHTS_IN_ANY_ORDER = """
import torch
import hora.torch as hvd
torch.manual_seed(rank)
model = torch.nn.Sequential(*(torch.nn.Linear(extent, 8) for extent in (4, 8, 8)))
named = dict(model.named_parameters())
order = list({name: None for name in set(named)})
hvd.broadcast_parameters({name: named[name] for name in order}, root_rank=0)
pairs = [(name, named[name]) for name in order]
given = {"dict": dict(pairs).items(), "list": pairs, "generator": (pair for pair in pairs)}[KIND]
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=given)
for step in range(3):
    optimizer.zero_grad()
    model(torch.full((2, 4), 1.0 + rank + step)).sum().backward()
    optimizer.step()
weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
gathered = hvd.allgather(weights[None], name="weights")
assert gathered[0].equal(gathered[1])
say(f"equal, beginning with {order}")
"""


@pytest.mark.parametrize("kind", ["dict", "list", "generator"])
def test_weights_do_not_depend_on_the_order_of_names(kind: str) -> None:
    program = WEIGHTS_IN_ANY_ORDER.replace("KIND", repr(kind))
    ending = run_to_end(WITH_OWN_HASH_SEED + PROLOGUE + program, 2, 40, {})
    assert ending.code == 0, ending.output
    assert len(set(re.findall(r"equal, beginning with .*", ending.output))) == 2, ending.output
