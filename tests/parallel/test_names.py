"""One name belongs to one tensor from the call until its handle was synchronised or polled as done."""

from __future__ import annotations

import pytest
import torch
from disagreement import assert_works
from harness.peers import Peers

import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3, 4)


def test_second_call_under_a_name_in_flight_raises(peers: Peers) -> None:
    first = hvd.allreduce_async(torch.full((4,), float(peers.rank)), name="x", op=hvd.Sum)
    with pytest.raises(ValueError, match="'x'"):
        hvd.allreduce_async(torch.ones(5), name="x")
    assert hvd.synchronize(first).tolist() == [peers.size * (peers.size - 1) / 2] * 4
    assert_works(peers, "x")


@pytest.mark.parametrize("second", ["allreduce", "allreduce_", "allgather", "broadcast", "broadcast_"])
def test_any_operation_holds_its_name(second: str, peers: Peers) -> None:
    starts = {
        "allreduce": lambda: hvd.allreduce_async(torch.ones(4), name="y", op=hvd.Sum),
        "allgather": lambda: hvd.allgather_async(torch.ones(4), name="y"),
        "broadcast": lambda: hvd.broadcast_async(torch.ones(4), 0, name="y"),
    }
    for start in starts.values():
        handle = start()
        arguments = (torch.ones(4), 0) if second.startswith("broadcast") else (torch.ones(4),)
        with pytest.raises(ValueError, match="'y'"):
            getattr(hvd, second)(*arguments, name="y")
        hvd.synchronize(handle)
    assert_works(peers, "y")


def test_holds_although_the_first_is_long_complete(peers: Peers) -> None:
    first = hvd.allreduce_async(torch.ones(4), name="done", op=hvd.Sum)
    for _ in range(20):
        hvd.allreduce(torch.ones(100))
    peers.wait()
    with pytest.raises(ValueError, match="'done'"):
        hvd.allreduce_async(torch.ones(4), name="done")
    assert hvd.synchronize(first).tolist() == [peers.size] * 4
    assert_works(peers, "done")


def test_a_true_poll_frees_the_name(peers: Peers) -> None:
    first = hvd.allreduce_async(torch.ones(4), name="polled", op=hvd.Sum)
    while not hvd.poll(first):
        pass
    second = hvd.allreduce_async(torch.full((4,), 2.0), name="polled", op=hvd.Sum)
    assert hvd.synchronize(second).tolist() == [2 * peers.size] * 4
    assert hvd.synchronize(first).tolist() == [peers.size] * 4


def test_duplicate_on_one_rank_only(peers: Peers) -> None:
    first = hvd.allreduce_async(torch.ones(4), name="z", op=hvd.Sum)
    if peers.rank == 0:
        with pytest.raises(ValueError, match="'z'"):
            hvd.allreduce_async(torch.ones(4), name="z")
    assert hvd.synchronize(first).tolist() == [peers.size] * 4
    assert_works(peers, "z")


def test_failed_operation_frees_its_name(peers: Peers) -> None:
    handle = hvd.allreduce_async(torch.ones(1 + peers.rank), name="failed")
    with pytest.raises(HorovodInternalError):
        hvd.synchronize(handle)
    assert_works(peers, "failed")


def test_poll_becomes_true_for_a_failed_operation(peers: Peers) -> None:
    handle = hvd.allreduce_async(torch.ones(1 + peers.rank), name="failed")
    while not hvd.poll(handle):
        pass
    with pytest.raises(HorovodInternalError, match="failed"):
        hvd.synchronize(handle)
    assert_works(peers, "failed")


@pytest.mark.parametrize(
    "name", ["a" * 5000, "layer.0.weight", "größe 重み \U0001f600", "with 'quotes' and {braces}", "%s%n"]
)
def test_unusual_names(name: str, peers: Peers) -> None:
    assert hvd.allreduce(torch.ones(3), name=name, op=hvd.Sum).tolist() == [peers.size] * 3
    with pytest.raises(HorovodInternalError) as caught:
        hvd.allreduce(torch.ones(1 + peers.rank), name=name)
    assert name in str(caught.value)
    assert_works(peers, name)


def test_many_names(peers: Peers) -> None:
    handles = [
        hvd.allreduce_async(torch.ones(3), name=f"many.{number}", op=hvd.Sum) for number in range(3000)
    ]
    assert all(hvd.synchronize(handle).tolist() == [peers.size] * 3 for handle in handles)
