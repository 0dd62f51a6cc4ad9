"""Start, work and end can be repeated; what is called between them raises; forked children do no harm."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from disagreement import assert_works
from harness.peers import Peers

import hora
import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3)
Restart = Callable[..., None]

CALLS: dict[str, Callable[[], Any]] = {
    **{
        name: getattr(hvd, name)
        for name in ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
    },
    "is_homogeneous": hora.is_homogeneous,
    "allreduce": lambda: hvd.allreduce(torch.ones(2)),
    "allreduce named": lambda: hvd.allreduce(torch.ones(2), name="x"),
    "allreduce_": lambda: hvd.allreduce_(torch.ones(2)),
    "allreduce_async": lambda: hvd.allreduce_async(torch.ones(2)),
    "allreduce_async_": lambda: hvd.allreduce_async_(torch.ones(2)),
    "allgather": lambda: hvd.allgather(torch.ones(2)),
    "allgather_async": lambda: hvd.allgather_async(torch.ones(2)),
    "broadcast": lambda: hvd.broadcast(torch.ones(2), 0),
    "broadcast_": lambda: hvd.broadcast_(torch.ones(2), 0),
    "broadcast_async_": lambda: hvd.broadcast_async_(torch.ones(2), 0),
    "barrier": hvd.barrier,
    "alltoall": lambda: hvd.alltoall(torch.ones(6)),
    "reducescatter": lambda: hvd.reducescatter(torch.ones(6)),
    "grouped_allreduce": lambda: hvd.grouped_allreduce([torch.ones(2)]),
    "join": hvd.join,
    "add_process_set": lambda: hvd.add_process_set([0]),
    "broadcast_object": lambda: hvd.broadcast_object("x"),
    "allgather_object": lambda: hvd.allgather_object("x"),
    "broadcast_parameters": lambda: hvd.broadcast_parameters({"a": torch.ones(2)}, 0),
    "numpy allreduce": lambda: hora.allreduce(numpy.ones(2)),
}


@pytest.mark.parametrize("call", CALLS)
def test_call_between_shutdown_and_init_raises_at_once(call: str) -> None:
    hora.shutdown()
    start = time.monotonic()
    with pytest.raises(HorovodInternalError, match="init") as caught:
        CALLS[call]()
    assert isinstance(caught.value, ValueError)
    assert time.monotonic() - start < 1
    assert not hora.is_initialized()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> list[str]:
    names = []
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            names.append((thread / "comm").read_text().strip())
    return sorted(names)


@pytest.mark.parametrize("module", [hora, hvd], ids=["hora", "torch"])
def test_cycles_leave_nothing_behind(module: Any, peers: Peers) -> None:
    assert_works(peers, "before")
    time.sleep(0.2)  # a thread that has ended may be counted a moment longer
    before = open_files(), threads()
    peers.wait()  # the first shutdown ends the engines of all ranks
    for cycle in range(6):
        module.shutdown()
        assert not module.is_initialized()
        with pytest.raises(HorovodInternalError):
            hvd.allreduce(torch.ones(2))
        module.shutdown()
        module.init()
        assert_works(peers, f"cycle.{cycle}")
        assert_works(peers, "same.in.each.cycle")
    end = time.monotonic() + 5
    while (open_files(), threads()) != before:
        assert time.monotonic() < end, (
            f"descriptors and threads: {before} before, {open_files(), threads()} after"
        )


def test_many_quick_cycles(peers: Peers) -> None:
    for _ in range(20):
        hora.shutdown()
        hora.init()
    assert_works(peers, "after")


def test_pending_operations_fail_when_this_rank_leaves(peers: Peers) -> None:
    handle = None
    if peers.rank == 0:
        handle = hvd.allreduce_async(torch.ones(3), name="never")
    peers.wait()
    hora.shutdown()
    if handle is not None:
        with pytest.raises(HorovodInternalError, match=r"never|shut"):
            hvd.synchronize(handle)
    hora.init()
    assert_works(peers, "never")


@pytest.mark.parametrize("leaving", ["first", "last"])
def test_a_rank_that_leaves_is_named_to_those_that_wait(leaving: str, peers: Peers) -> None:
    leaver = 0 if leaving == "first" else peers.size - 1
    mine = torch.ones(3)
    if peers.rank == leaver:
        peers.wait()
        hora.shutdown()
    else:
        handle = hvd.allreduce_async_(mine, name="abandoned", op=hvd.Sum)
        peers.wait()
        start = time.monotonic()
        with pytest.raises(HorovodInternalError, match=f"rank {leaver}"):
            hvd.synchronize(handle)
        assert time.monotonic() - start < 5
        with pytest.raises(HorovodInternalError, match=f"rank {leaver}"):
            hvd.allreduce(torch.ones(3), name="afterwards")
        hora.shutdown()
    hora.init()
    assert_works(peers, "abandoned")


def test_shutdown_while_a_thread_waits(peers: Peers) -> None:
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            hvd.allreduce(torch.ones(3), name=f"alone.{peers.rank}")
        except HorovodInternalError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    peers.wait()
    hora.shutdown()
    thread.join(10)
    assert len(outcome) == 1
    hora.init()
    assert_works(peers, "after")


def test_numbers_of_unnamed_calls_start_anew(peers: Peers) -> None:
    for _ in range(peers.rank):
        hvd.allreduce_async(torch.ones(3))
    peers.wait()
    hora.shutdown()
    hora.init()
    assert hvd.allreduce(torch.full((2,), 4.0), op=hvd.Sum).tolist() == [4 * peers.size] * 2


# Forked children


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index)])


@pytest.mark.timeout(90)
@pytest.mark.parametrize("workers", [1, 2])
def test_data_loader_with_forked_workers(workers: int, peers: Peers) -> None:
    loader = torch.utils.data.DataLoader(
        Numbers(), batch_size=2, num_workers=workers, multiprocessing_context="fork"
    )
    for epoch in range(2):
        sums = [hvd.allreduce(batch.sum(), op=hvd.Sum).item() for batch in loader]
        assert sums == [(4 * step + 1) * peers.size for step in range(50)], f"epoch {epoch}"


def in_child(function: Callable[[], Any]) -> tuple[Any, int | None]:
    """Run `function` in a forked child; return its result or the error's text, and the exit code."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        try:
            sender.send(("returned", function()))
        except Exception as error:
            sender.send((type(error).__name__, str(error)))

    process = context.Process(target=run)
    process.start()
    answer = receiver.recv() if receiver.poll(20) else ("silent", "")
    process.join(10)
    if process.exitcode is None:
        process.kill()
    return answer, process.exitcode


@pytest.mark.parametrize("call", CALLS)
def test_call_in_a_forked_child_raises(call: str, peers: Peers) -> None:
    (kind, text), code = in_child(CALLS[call])
    assert kind in ("HorovodInternalError", "NotInitializedError"), (kind, text)
    assert "fork" in text
    assert code == 0
    assert_works(peers, "parent")


@pytest.mark.parametrize("name", ["init", "shutdown", "is_initialized"])
def test_forked_child_cannot_disturb_its_parent(name: str, peers: Peers) -> None:
    answer, code = in_child(getattr(hora, name))
    assert answer[0] != "silent"
    assert code == 0
    assert name != "is_initialized" or answer == ("returned", False)
    assert_works(peers, "parent")


def test_fork_while_operations_are_in_flight(peers: Peers) -> None:
    for number in range(10):
        handles = [hvd.allreduce_async(torch.ones(10_000), name=f"f.{n}", op=hvd.Sum) for n in range(10)]
        answer, code = in_child(lambda: sum(range(1000)))
        assert (answer, code) == (("returned", 499500), 0), f"fork {number}"
        assert all((hvd.synchronize(handle) == peers.size).all() for handle in handles)


def test_child_drops_tensors_and_handles_of_its_parent(peers: Peers) -> None:
    handles = [hvd.allreduce_async(torch.ones(100), name=f"d.{n}", op=hvd.Sum) for n in range(5)]

    def drop() -> int:
        handles.clear()
        return 7

    answer, code = in_child(drop)
    assert (answer, code) == (("returned", 7), 0)
    assert all((hvd.synchronize(handle) == peers.size).all() for handle in handles)


def test_idle_costs_next_to_nothing(peers: Peers) -> None:
    assert_works(peers, "before")
    time.sleep(0.5)
    before = time.process_time()
    time.sleep(2)
    assert time.process_time() - before < 0.01  # half a percent of a core


def test_no_shared_memory_is_left(restart: Restart, peers: Peers) -> None:
    peers.wait()
    before = set(os.listdir("/dev/shm"))
    for _ in range(3):
        restart()
        hvd.allreduce(torch.ones(100_000))
    hora.shutdown()
    peers.wait()
    left = [name for name in set(os.listdir("/dev/shm")) - before if "hora" in name]
    peers.wait()
    assert left == []
