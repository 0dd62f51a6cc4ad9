"""SIGTERM and SIGINT: a job that polls for them ends in order, any other at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from harness import processes
from harness.mpirun import mpirun, rank_environment

PROLOGUE = """
import os, signal, sys, time
import numpy
import hora

def own_handler(number, frame):
    open(f"{FOLDER}/handled-{hora.rank()}", "w").close()

if OWN_HANDLER:
    signal.signal(signal.SIGTERM, own_handler)
    signal.signal(signal.SIGINT, own_handler)
hora.init()
step = 0

def train():
    global step
    hora.allreduce(numpy.ones(10), name="gradient")
    step += 1
    if step == 3:
        open(f"{FOLDER}/ready-{hora.rank()}", "w").close()
    time.sleep(0.01)
"""
POLLING = """
while not hora.stop_requested():
    train()
sys.stdout.write(f"stopped at {step}\\n")
"""
NOT_POLLING = """
while True:
    train()
"""
BUSY_WITHOUT_END = """
hora.stop_requested()
while True:
    train()
"""


class Job:
    """A script on some ranks."""

    def __init__(self, folder: Path, program: str, ranks: int, own_handler: bool) -> None:
        self.folder, self.ranks, self.mark = folder, ranks, uuid.uuid4().hex
        head = f"FOLDER = {str(folder)!r}\nOWN_HANDLER = {own_handler}\n"
        command = [*mpirun(ranks), sys.executable, "-c", head + PROLOGUE + program]
        self.process = subprocess.Popen(
            command,
            env=rank_environment(**{processes.MARK: self.mark}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_until_ready(self) -> None:
        end = time.monotonic() + 20
        while len(list(self.folder.glob("ready-*"))) < self.ranks:
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < end
            time.sleep(0.05)

    def end(self, seconds: float) -> tuple[int, str]:
        try:
            output, _ = self.process.communicate(timeout=seconds)
            assert processes.wait_until_gone(self.mark, 5) == []
        finally:
            processes.end_all(self.mark)
        return self.process.returncode, output


@pytest.mark.parametrize("own_handler", [False, True], ids=["", "own handler"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_ranks_stop_in_the_same_step(tmp_path: Path, number: signal.Signals, own_handler: bool) -> None:
    job = Job(tmp_path, POLLING, 3, own_handler)
    job.wait_until_ready()
    # One rank gets it, as from a scheduler on its host.
    ranks = [pid for pid in processes.marked(job.mark) if pid != job.process.pid]
    os.kill(ranks[-1], number)
    code, output = job.end(10)
    assert code == 0, output
    steps = [line for line in output.splitlines() if line.startswith("stopped at")]
    assert len(steps) == 3 and len(set(steps)) == 1, output
    assert len(list(tmp_path.glob("handled-*"))) == own_handler


@pytest.mark.parametrize("own_handler", [False, True], ids=["", "own handler"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", [POLLING, NOT_POLLING], ids=["polling", "not polling"])
def test_the_launcher_gets_it_and_nothing_stays_behind(
    tmp_path: Path, program: str, number: signal.Signals, own_handler: bool
) -> None:
    job = Job(tmp_path, program, 3, own_handler)
    job.wait_until_ready()
    job.process.send_signal(number)
    code, output = job.end(30)
    assert code != 0, output
    if own_handler:
        assert list(tmp_path.glob("handled-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_a_rank_that_does_not_stop(tmp_path: Path, number: signal.Signals) -> None:
    job = Job(tmp_path, BUSY_WITHOUT_END, 2, own_handler=False)
    job.wait_until_ready()
    rank = [pid for pid in processes.marked(job.mark) if pid != job.process.pid][-1]
    os.kill(rank, number)
    time.sleep(1)
    assert job.process.poll() is None
    os.kill(rank, number)
    code, output = job.end(10)
    assert code != 0, output


LEAVING = """
while step < 3:
    train()
if hora.rank() == 0:
    time.sleep(4)
hora.shutdown()
sys.stdout.write("left\\n")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_shutdown_ends_the_job_soon(tmp_path: Path, number: signal.Signals) -> None:
    job = Job(tmp_path, LEAVING, 2, own_handler=False)
    job.wait_until_ready()
    ranks = [pid for pid in processes.marked(job.mark) if pid != job.process.pid]
    time.sleep(1)
    for rank in ranks:
        os.kill(rank, number)
    code, output = job.end(15)
    assert code != 0, output
