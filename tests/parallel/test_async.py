"""Asynchronous operations own their memory, end for every dtype, and never need the interpreter lock."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import numpy
import pytest
import torch
from front_ends import DTYPES, FRONT_ENDS, FrontEnd
from harness.peers import Peers

import hora.torch as hvd

RANKS = (2, 3)


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("length", [1000, 100_000])
def test_input_and_output_live_without_references(
    length: int, in_place: bool, front: FrontEnd, peers: Peers
) -> None:
    start = front.hvd.allreduce_async_ if in_place else front.hvd.allreduce_async
    for step in range(100):
        handle = start(
            front.tensor(numpy.full(length, peers.rank + step), "float32"), name="short", op=front.hvd.Sum
        )
        if step % 50 == 0:
            gc.collect()
        rubbish = [front.tensor(numpy.full(length, -7), "float32") for _ in range(2)]
        result = front.array(front.hvd.synchronize(handle))
        assert (result == peers.size * step + peers.size * (peers.size - 1) / 2).all()
        del rubbish


def test_gathered_and_broadcast_memory_lives_without_references(peers: Peers) -> None:
    for step in range(100):
        gathered = hvd.allgather_async(torch.full((1000,), peers.rank + step), name="g")
        sent = hvd.broadcast_async(torch.full((1000,), peers.rank + step), 0, name="b")
        rubbish = torch.full((1000,), -7)
        assert (hvd.synchronize(sent) == step).all()
        assert hvd.synchronize(gathered).sum() == 1000 * sum(rank + step for rank in range(peers.size))
        del rubbish


def test_memory_of_the_other_collectives_lives_without_references(peers: Peers) -> None:
    def full(value: float) -> torch.Tensor:
        return torch.full((1000 * peers.size,), value)

    total = sum(range(peers.size))
    for step in range(100):
        sent = hvd.alltoall_async(full(peers.rank + step), name="a")
        counted = hvd.alltoall_async(full(peers.rank + step), [1000] * peers.size, name="c")
        scattered = hvd.reducescatter_async(full(peers.rank + step), name="s", op=hvd.Sum)
        grouped = hvd.grouped_allreduce_async([full(peers.rank + step) for _ in "ab"], name="g", op=hvd.Sum)
        in_place = hvd.grouped_allreduce_async_([full(peers.rank + step) for _ in "ab"], name="i", op=hvd.Sum)
        sparse = hvd.sparse_allreduce_async(full(peers.rank + step + 1.0).to_sparse(), "e", hvd.Sum)
        rubbish = [full(-7) for _ in range(6)]
        of_senders = torch.arange(peers.size).repeat_interleave(1000) + float(step)
        assert torch.equal(hvd.synchronize(sent), of_senders)
        assert torch.equal(hvd.synchronize(counted)[0], of_senders)
        for result in (
            hvd.synchronize(scattered),
            *hvd.synchronize(grouped),
            *hvd.synchronize(in_place),
            sparse().to_dense() - peers.size,
        ):
            assert (result == total + step * peers.size).all()
        del rubbish


def test_results_survive_the_operations_after_them(peers: Peers) -> None:
    kept = [hvd.allreduce(torch.full((500,), float(step)), name="reused", op=hvd.Sum) for step in range(50)]
    assert all((result == step * peers.size).all() for step, result in enumerate(kept))


STARTS: dict[str, Callable[[torch.Tensor], object]] = {
    "allreduce_async": lambda tensor: hvd.allreduce_async(tensor, op=hvd.Sum),
    "allreduce_async_": lambda tensor: hvd.allreduce_async_(tensor, op=hvd.Max),
    "average": lambda tensor: hvd.allreduce_async(tensor),
    "allgather_async": lambda tensor: hvd.allgather_async(tensor),
    "broadcast_async": lambda tensor: hvd.broadcast_async(tensor, 1),
    "broadcast_async_": lambda tensor: hvd.broadcast_async_(tensor, 0),
    "alltoall_async": lambda tensor: hvd.alltoall_async(tensor, [5, *[0] * (hvd.size() - 1)]),
    "reducescatter_async": lambda tensor: hvd.reducescatter_async(tensor, op=hvd.Sum),
    "average of reducescatter": lambda tensor: hvd.reducescatter_async(tensor),
    "grouped_allreduce_async": lambda tensor: hvd.grouped_allreduce_async([tensor] * 2, op=hvd.Sum),
    "grouped_allreduce_async_": lambda tensor: hvd.grouped_allreduce_async_([tensor], op=hvd.Product),
    "average of a group": lambda tensor: hvd.grouped_allreduce_async([tensor]),
    "grouped_allgather_async": lambda tensor: hvd.grouped_allgather_async([tensor] * 2),
    "grouped_reducescatter_async": lambda tensor: hvd.grouped_reducescatter_async([tensor] * 2, op=hvd.Sum),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", STARTS)
def test_poll_becomes_true_and_waiting_twice_raises(form: str, dtype: str, peers: Peers) -> None:
    if "average" in form and dtype == "bool":
        return
    handle = STARTS[form](torch.ones(5, dtype=getattr(torch, dtype)))
    end = time.monotonic() + 5
    while not hvd.poll(handle):
        assert time.monotonic() < end, "poll stays false"
        time.sleep(0)
    result = hvd.synchronize(handle)
    first = result[0] if isinstance(result, list | tuple) else result
    assert first.dtype == getattr(torch, dtype)
    with pytest.raises(ValueError, match="synchronized before"):
        hvd.synchronize(handle)


def test_waiting_twice_for_a_sparse_result_raises(peers: Peers) -> None:
    finish = hvd.sparse_allreduce_async(torch.eye(3).to_sparse(), "eye")
    assert torch.equal(finish().to_dense(), torch.eye(3))
    with pytest.raises(ValueError, match="synchronized before"):
        finish()


def test_poll_is_false_while_a_peer_is_missing(peers: Peers) -> None:
    if peers.rank == 0:
        peers.wait()
        handle = hvd.allreduce_async(torch.ones(3), name="p", op=hvd.Sum)
    else:
        handle = hvd.allreduce_async(torch.ones(3), name="p", op=hvd.Sum)
        assert not hvd.poll(handle)
        peers.wait()
    assert hvd.synchronize(handle).tolist() == [peers.size] * 3


@pytest.mark.timeout(60)
def test_progress_without_the_interpreter_lock(peers: Peers) -> None:
    rounds = 500 if peers.size == 2 else 50
    errors: list[str] = []

    def loop() -> None:
        for step in range(rounds):
            result = hvd.allreduce(torch.full((10,), float(step)), name="loop", op=hvd.Sum)
            if not (result == step * peers.size).all():
                errors.append(f"step {step}: {result}")

    thread = threading.Thread(target=loop)
    thread.start()
    for number in range(200):
        hvd.allreduce_async(torch.ones(100), name=f"dropped.{number}")
        sum(value * value for value in range(2000))
        if number % 20 == 0:
            gc.collect()
    while thread.is_alive():
        sum(value * value for value in range(2000))
    thread.join()
    assert errors == []


@pytest.mark.timeout(60)
def test_several_threads_submit_and_wait(peers: Peers) -> None:
    sums: dict[int, list[float]] = {}

    def work(thread: int) -> None:
        sums[thread] = [
            hvd.allreduce(torch.full((50,), float(step)), name=f"t{thread}", op=hvd.Sum)[0].item()
            for step in range(100)
        ]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(sums[number] == [float(step * peers.size) for step in range(100)] for number in range(4))


def test_dropped_handles_complete_on_all_ranks(peers: Peers) -> None:
    tensors = [torch.ones(10) for _ in range(100)]
    for number, tensor in enumerate(tensors):
        hvd.allreduce_async_(tensor, name=f"forgotten.{number}", op=hvd.Sum)
    gc.collect()
    hvd.barrier()
    hvd.allreduce(torch.ones(1))
    end = time.monotonic() + 10
    while not all((tensor == peers.size).all() for tensor in tensors):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_one_thread_waits_for_the_handle_of_another(peers: Peers) -> None:
    handles = [
        hvd.allreduce_async(torch.ones(10), name=f"other.{number}", op=hvd.Sum) for number in range(20)
    ]
    results: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: results.extend(map(hvd.synchronize, handles)))
    thread.start()
    thread.join()
    assert all((result == peers.size).all() for result in results)


def test_many_thousand_operations_leave_no_memory(peers: Peers) -> None:
    def resident_mib() -> float:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096 / 2**20

    def work(rounds: int, prefix: str) -> None:
        for number in range(rounds):
            handle = hvd.allreduce_async(torch.ones(25_000), name=f"{prefix}.{number}")
            hvd.allreduce_(torch.ones(25_000), name="same")
            hvd.synchronize(handle)

    work(300, "warm")
    before = resident_mib()
    work(1500, "fresh")
    assert resident_mib() - before < 20


def test_many_scattered_at_once_end_in_any_order(peers: Peers) -> None:
    handles = [
        hvd.reducescatter_async(torch.full((rows, 2), 1.0 + peers.rank), name=f"r.{rows}", op=hvd.Sum)
        for rows in range(40)
    ]
    total = peers.size * (peers.size + 1) / 2
    for rows, handle in reversed(list(enumerate(handles))):
        share = torch.full((rows, 2), total).tensor_split(peers.size)[peers.rank]
        assert torch.equal(hvd.synchronize(handle), share)
