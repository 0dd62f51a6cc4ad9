"""Grouped collectives: results in the order of the tensors, all or none."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from disagreement import assert_works, table_of
from front_ends import FRONT_ENDS, FrontEnd
from harness.peers import Peers

import hora
import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3)

# Dtype and shape of each member of a group.
MIXED: list[tuple[str, tuple[int, ...]]] = [
    ("float32", (3,)),
    ("float64", (2, 2)),
    ("int64", (5,)),
    ("float32", (0, 4)),
    ("float32", (70_001,)),
    ("float16", ()),
    ("int64", (1,)),
]


def mixed(front: FrontEnd, peers: Peers, add: int = 0) -> list[Any]:
    return [
        front.tensor(numpy.full(shape, number + peers.rank + add), dtype)
        for number, (dtype, shape) in enumerate(MIXED)
    ]


def assert_sums(front: FrontEnd, results: list[Any], peers: Peers, add: int = 0) -> None:
    for number, (result, (dtype, shape)) in enumerate(zip(results, MIXED, strict=True)):
        total = sum(number + rank + add for rank in range(peers.size))
        assert (front.dtype(result), tuple(result.shape)) == (dtype, shape)
        assert (front.array(result) == total).all()


@pytest.mark.parametrize("late", [0, 1])
def test_a_rank_that_submits_late(late: int, peers: Peers) -> None:
    front = FRONT_ENDS[-1]
    for turn in range(5):
        if peers.rank == late:
            peers.wait()
        handle = hvd.grouped_allreduce_async(mixed(front, peers, turn), op=hvd.Sum, name="late")
        if peers.rank != late:
            assert not hvd.poll(handle)
            peers.wait()
        assert_sums(front, hvd.synchronize(handle), peers, turn)


def test_several_groups_in_flight(peers: Peers) -> None:
    front = FRONT_ENDS[-1]
    handles = [
        hvd.grouped_allreduce_async(mixed(front, peers, group), op=hvd.Sum, name=f"group{group}")
        for group in range(10)
    ]
    for group, handle in reversed(list(enumerate(handles))):
        assert_sums(front, hvd.synchronize(handle), peers, group)


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_no_tensors(front: FrontEnd, peers: Peers) -> None:
    assert front.hvd.grouped_allreduce([]) == []
    assert front.hvd.grouped_allgather([], name="none") == []
    assert front.hvd.synchronize(front.hvd.grouped_allreduce_async([])) == []


WRONG: dict[str, Any] = {
    "complex": [torch.ones(2), torch.ones(2, dtype=torch.complex64), torch.ones(2)],
    "bool average": [torch.ones(2), torch.ones(2, dtype=torch.bool), torch.ones(2)],
    "no tensor": [torch.ones(2), None, torch.ones(2)],
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", [None, "group"])
def test_refusal_of_one_member_leaves_nothing_behind(wrong: str, name: str | None, peers: Peers) -> None:
    right = [torch.ones(2)] * 3
    for erring in range(peers.size):
        expected = (ValueError, TypeError) if peers.rank == erring else HorovodInternalError
        with pytest.raises(expected):
            hvd.grouped_allreduce(WRONG[wrong] if peers.rank == erring else right, name=name)
        for result in hvd.grouped_allreduce(right, name=name, op=hvd.Sum):
            assert result.tolist() == [peers.size] * 2
    assert_works(peers, "group")


def test_name_in_use_leaves_the_first_call_alone(peers: Peers) -> None:
    first = hvd.grouped_allreduce_async([torch.ones(1), torch.ones(2)], name="twice", op=hvd.Sum)
    with pytest.raises(ValueError, match="'twice': an operation with this name"):
        hvd.grouped_allreduce_async([torch.ones(1), torch.ones(2)], name="twice", op=hvd.Sum)
    assert [each.tolist() for each in hvd.synchronize(first)] == [[peers.size], [peers.size] * 2]
    second = hvd.grouped_allreduce([torch.ones(1), torch.ones(2)], name="twice", op=hvd.Sum)
    assert [each.tolist() for each in second] == [[peers.size], [peers.size] * 2]


def test_one_member_that_differs_fails_on_all_ranks(peers: Peers) -> None:
    tensors = [torch.ones(2), torch.ones(2 if peers.rank == 0 else 3), torch.ones(2)]
    with pytest.raises(HorovodInternalError, match=r"'group': ranks differ in shape of tensor 1 of 3\n"):
        hvd.grouped_allreduce(tensors, name="group")
    assert [each.tolist() for each in tensors[::2]] == [[1, 1], [1, 1]]
    assert_works(peers, "group")


GROUPED = ("grouped_allreduce", "grouped_allreduce_", "grouped_allgather", "grouped_reducescatter")


@pytest.mark.parametrize("name", ["group", None])
@pytest.mark.parametrize("call", GROUPED)
def test_one_member_of_another_dtype_fails_on_all_ranks(call: str, name: str | None, peers: Peers) -> None:
    for odd in range(peers.size):
        tensors = [torch.ones(2), torch.ones(2, dtype=torch.int32 if peers.rank == odd else torch.float64)]
        with pytest.raises(HorovodInternalError, match="ranks differ in dtype of tensor 1 of 2\n") as caught:
            getattr(hvd, call)(tensors, name=name)
        peers.assert_same(str(caught.value))
        assert table_of(str(caught.value))[str(odd)]["dtype"] == "int32"
        assert [each.tolist() for each in tensors] == [[1, 1], [1, 1]]
    assert_works(peers, "group")


@pytest.mark.parametrize("call", GROUPED[:2])
@pytest.mark.parametrize(("option", "value"), [("op", hvd.Max), ("prescale_factor", 2.0)], ids=str)
def test_options_that_differ_fail_on_all_ranks(call: str, option: str, value: Any, peers: Peers) -> None:
    options: dict[str, Any] = {"op": hvd.Sum, **({option: value} if peers.rank == 1 else {})}
    with pytest.raises(HorovodInternalError, match=f"'group': ranks differ in {option}\n") as caught:
        getattr(hvd, call)([torch.ones(2), torch.ones(3)], name="group", **options)
    peers.assert_same(str(caught.value))
    assert_works(peers, "group")


def test_generators_are_accepted(peers: Peers) -> None:
    def tensors() -> Any:
        return (torch.ones(peers.size) for _ in range(3))

    for results, expected in (
        (hvd.grouped_allreduce(tensors(), op=hvd.Sum), [peers.size] * peers.size),
        (hvd.grouped_allreduce_(tensors(), op=hvd.Sum), [peers.size] * peers.size),
        (hvd.grouped_allgather(tensors()), [1] * peers.size**2),
        (hvd.grouped_reducescatter(tensors(), op=hvd.Sum), [peers.size]),
        (hvd.synchronize(hvd.grouped_allreduce_async_(tensors())), [1] * peers.size),
        (hvd.synchronize(hvd.grouped_allgather_async(tensors())), [1] * peers.size**2),
        (hvd.synchronize(hvd.grouped_reducescatter_async(tensors())), [1]),
    ):
        assert [each.tolist() for each in results] == [expected] * 3


def test_groups_of_different_length_fail_on_all_ranks(peers: Peers) -> None:
    tensors = [torch.ones(2)] * (2 + (peers.rank == 0))
    for call in (hvd.grouped_allreduce, hvd.grouped_allreduce_, hvd.grouped_allgather):
        for name in ("group", None):
            with pytest.raises(HorovodInternalError, match="ranks differ in number of tensors\n") as caught:
                call(tensors, name=name)
            assert table_of(str(caught.value))["0"]["number of tensors"] == "3"
    assert_works(peers, "group")


def test_a_group_and_a_tensor_of_one_name_fail_on_all_ranks(peers: Peers) -> None:
    with pytest.raises(HorovodInternalError, match="'group': ranks differ in number of tensors\n"):
        if peers.rank == 0:
            hvd.allreduce(torch.ones(2), name="group")
        else:
            hvd.grouped_allreduce([torch.ones(2), torch.ones(2)], name="group")
    assert_works(peers, "group")


def test_a_group_is_one_batch_and_one_message_whatever_its_length(peers: Peers) -> None:
    for length in (1, 200):
        tensors = [torch.ones(3) for _ in range(length)]
        for _ in range(3):
            hvd.barrier()
            before = hvd.metrics()
            hvd.grouped_allreduce_(tensors, name=f"group of {length}")
            after = hvd.metrics()
        assert after["batches"] - before["batches"] == 1
        assert after["tensors"] - before["tensors"] == length
        assert after["cache_hits"] - before["cache_hits"] == 1
        messages = after["messages"] - before["messages"]
        assert after["message_bytes"] - before["message_bytes"] < 40 * messages


def test_one_tensor_is_no_list(peers: Peers) -> None:
    for call in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
        with pytest.raises(TypeError, match="list"):
            call(torch.ones(3))
    with pytest.raises(TypeError, match="list"):
        hora.grouped_allreduce_(numpy.ones(3))
    assert_works(peers, "afterwards")
