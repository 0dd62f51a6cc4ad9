"""Trainings in which one rank does something to itself at a random moment: each ends as it should.

TEST_CHAOS_SEEDS says which seeds are tried: one, such as 17, or a range, such as 0-99.
"""

from __future__ import annotations

import functools
import os
import random
import re
import sys
from dataclasses import dataclass

import pytest
from harness.mpirun import RECOVERY, Ending, run_to_end

FIRST, _, LAST = os.environ.get("TEST_CHAOS_SEEDS", "0-11").partition("-")
SEEDS = range(int(FIRST), int(LAST or FIRST) + 1)
LIMIT_S = 25.0
TOLD_WITHIN_S = 2.0
# A message that is missing is noticed when the next one comes, at the latest after this and a little more.
STALL_WARNING_S = 1
STOPPED_S = 4
STEPS = 40
STEPS_PER_GATHER = 5

# Weights and biases of least squares; each step reduces some alone and some together. Now and then all ranks
# gather what is large enough for them to make sure that each has memory for it.
TRAINING = f"""
import hashlib, os, subprocess, sys, time
import numpy
import hora
from hora.errors import HorovodInternalError

def say(text):
    sys.stdout.write(f"rank {{rank}}: {{text}}\\n")

def go_on_when_stopped():
    '''Another process watches this one.'''
    state = "read _ _ state _ < /proc/$0/stat"
    watch = f"while {{state}}; do [ $state = T ] && sleep $1 && kill -CONT $0; sleep 0.1; done"
    command = ["sh", "-c", watch, str(os.getpid()), "{STOPPED_S}"]
    none = subprocess.DEVNULL
    subprocess.Popen(command, stdin=none, stdout=none, stderr=none)

def gather(step):
    rows = numpy.full(200_000, rank + step, numpy.float32)
    try:
        gathered = hora.allgather(rows, name="rows")
    except HorovodInternalError as error:
        if "bytes of memory" not in str(error):
            raise
        return say(f"refused: {{error}}")
    assert (gathered.reshape(size, -1) == numpy.arange(size)[:, None] + step).all()

def train():
    for step in range({STEPS}):
        start[0] = time.time()
        inputs = random.standard_normal((16, 24))
        targets = [numpy.sin(inputs @ truth) for truth in truths]
        errors = [inputs @ weight + bias - target for weight, bias, target in zip(weights, biases, targets)]
        handles = [
            hora.allreduce_async(inputs.T @ error / len(inputs), name=f"weight {{layer}}")
            for layer, error in enumerate(errors)
        ]
        gradients = hora.grouped_allreduce([error.mean(0) for error in errors], name="biases")
        for layer, handle in enumerate(handles):
            weights[layer] -= 0.1 * hora.synchronize(handle)
            biases[layer] -= 0.1 * gradients[layer]
        if step % {STEPS_PER_GATHER} == 0:
            gather(step)

hora.init()
rank, size = hora.rank(), hora.size()
go_on_when_stopped()
random = numpy.random.default_rng(rank)
truths = numpy.random.default_rng(1000).standard_normal((5, 24, 8))
weights, biases = numpy.zeros((5, 24, 8)), numpy.zeros((5, 8))
start = [0.0]
try:
    train()
except HorovodInternalError as error:
    say(f"told after {{time.time() - start[0]:.2f}} s: {{error}}")
    raise
say(f"trained {{hashlib.sha256(weights.tobytes() + biases.tobytes()).hexdigest()}}")
hora.shutdown()
"""
# A shell tells how each rank has ended.
SCRIPT = """
import os, sys
command = '"$0" -c "$TRAINING"; echo "rank $OMPI_COMM_WORLD_RANK: ended with $?"'
os.execvp("sh", ["sh", "-c", command, sys.executable])
"""

SHAPES = ((2, ""), (3, ""), (4, "2,2"))
BATCH_POINTS = ("after_agreement", "in_batch", "before_completion")
POINTS = {
    "kill": (*BATCH_POINTS, "before_message", "in_allocation", "in_departure"),
    "stop": (*BATCH_POINTS, "before_message"),
    "delay": (*BATCH_POINTS, "before_message", "in_allocation", "in_departure"),
    "drop": ("before_message",),
    "corrupt": ("before_message",),
    "fail": ("in_allocation",),
}
# Each comes at least as often.
HITS = {"in_allocation": STEPS // STEPS_PER_GATHER, "in_departure": 1}


@dataclass(frozen=True)
class Chaos:
    """What happens, where and when."""

    ranks: int
    split: str
    action: str
    point: str
    rank: int
    hit: int
    delay: float

    @property
    def fault(self) -> str:
        value = f"={self.delay:.2f}" if self.action == "delay" else ""
        return f"{self.point}:{self.rank}:{self.hit}:{self.action}{value}"

    @property
    def others(self) -> list[int]:
        return [rank for rank in range(self.ranks) if rank != self.rank]


def draw(seed: int) -> Chaos:
    """Draw all but the action, each of which comes with every sixth seed."""
    dice = random.Random(seed)
    ranks, split = dice.choice(SHAPES)
    action = list(POINTS)[seed % len(POINTS)]
    point = dice.choice(POINTS[action])
    hit = dice.randint(1, HITS.get(point, STEPS))
    return Chaos(ranks, split, action, point, dice.randrange(ranks), hit, dice.uniform(0.05, 1.0))


def run(ranks: int, split: str, faults: str) -> Ending:
    settings = {
        "TRAINING": TRAINING,
        "HORA_FAULTS": faults,
        "HORA_HOST_SPLIT": split,
        "HORA_DETERMINISTIC": "1",
        "HORA_STALL_WARNING_SECONDS": str(STALL_WARNING_S),
        **RECOVERY,
    }
    return run_to_end(SCRIPT, ranks, LIMIT_S, settings)


def said(ending: Ending, rank: int, what: str) -> str:
    found = re.search(rf"rank {rank}: {what} ?(.*)", ending.output)
    assert found, f"rank {rank} never says {what!r}\n{ending.output}"
    return found[1]


@functools.cache
def undisturbed(ranks: int, split: str) -> str:
    """Return the digest of the weights without faults."""
    ending = run(ranks, split, "")
    digests = {said(ending, rank, "trained") for rank in range(ranks)}
    assert len(digests) == 1, ending.output
    return digests.pop()


def assert_all_trained(ending: Ending, chaos: Chaos, ranks: list[int]) -> None:
    for rank in ranks:
        assert said(ending, rank, "trained") == undisturbed(chaos.ranks, chaos.split)
        assert said(ending, rank, "ended with") == "0", ending.output


def assert_all_told(ending: Ending, ranks: list[int], within_s: float, words: str) -> None:
    for rank in ranks:
        told = re.match(r"after ([0-9.]+) s: (.*)", said(ending, rank, "told"))
        assert told and float(told[1]) < within_s, ending.output
        assert words in told[2], f"no {words!r}\n{ending.output}"
        assert said(ending, rank, "ended with") == "1", ending.output


@pytest.mark.parametrize("seed", SEEDS)
def test_a_training_ends_as_it_should(seed: int) -> None:
    chaos = draw(seed)
    again = f"TEST_CHAOS_SEEDS={seed} {sys.executable} tests/run.py --only e2e -k chaos"
    print(f"seed {seed}: {chaos.fault} on {chaos.ranks} ranks, hosts {chaos.split or 1}; again: {again}")
    ending = run(chaos.ranks, chaos.split, chaos.fault)
    everyone = list(range(chaos.ranks))
    assert f"HORA_FAULTS: {chaos.fault}" in ending.output, f"never came\n{ending.output}"
    if chaos.action == "kill":
        assert said(ending, chaos.rank, "ended with") == "137"
        if chaos.point == "in_departure":
            assert_all_trained(ending, chaos, chaos.others)
            assert f"the job has not ended in order: rank {chaos.rank}: " in ending.output
        else:
            assert_all_told(ending, chaos.others, TOLD_WITHIN_S, f"rank {chaos.rank} failed: ")
    elif chaos.action in ("drop", "corrupt"):
        within_s = TOLD_WITHIN_S + (STALL_WARNING_S if chaos.action == "drop" else 0)
        assert_all_told(ending, everyone, within_s, f"rank {chaos.rank} sent what cannot be: ")
    else:
        assert_all_trained(ending, chaos, everyone)
    if chaos.action == "stop":
        notice = rf"stalled:(.*\n)*.*rank {chaos.rank}\b.* does not answer"
        assert re.search(notice, ending.output), ending.output
    if chaos.action == "fail":
        for rank in everyone:
            assert re.search(rf"rank {chaos.rank} has not got \d+ bytes", said(ending, rank, "refused:"))
