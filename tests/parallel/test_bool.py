"""bool travels in every collective; Sum and Max are `or`, Product and Min are `and`, Average is refused."""

from __future__ import annotations

import numpy
import pytest
import torch
from front_ends import FRONT_ENDS, FrontEnd
from harness.peers import Peers

import hora
import hora.torch as hvd

RANKS = (2, 3, 4)


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
@pytest.mark.parametrize(
    ("reduction", "expected"), [("Sum", any), ("Max", any), ("Product", all), ("Min", all)]
)
def test_allreduce_is_logical(front: FrontEnd, reduction: str, expected: object, peers: Peers) -> None:
    patterns = [[rank == 0, rank != 0, True, False] * 9 for rank in range(peers.size)]
    result = front.hvd.allreduce(front.tensor(patterns[peers.rank], "bool"), op=getattr(front.hvd, reduction))
    assert front.dtype(result) == "bool"
    assert front.array(result).tolist() == [expected(column) for column in zip(*patterns, strict=True)]


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_average_is_refused_everywhere(front: FrontEnd, peers: Peers) -> None:
    for call in (front.hvd.allreduce, front.hvd.allreduce_):
        with pytest.raises(ValueError, match=r"(?i)bool.*average|average.*bool"):
            call(front.tensor([True], "bool"), name="flags")
    assert front.array(
        front.hvd.allreduce(front.tensor([True], "bool"), name="flags", op=front.hvd.Min)
    ).all()


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_average_refused_on_one_rank_reaches_the_others(front: FrontEnd, peers: Peers) -> None:
    with pytest.raises(ValueError if peers.rank == 0 else hora.errors.HorovodInternalError):
        op = front.hvd.Average if peers.rank == 0 else front.hvd.Sum
        front.hvd.allreduce(front.tensor([True], "bool"), name="flags", op=op)


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_broadcast(front: FrontEnd, peers: Peers) -> None:
    for root in range(peers.size):
        mine = front.tensor([peers.rank == root, False, peers.rank == root] * 5, "bool")
        result = front.hvd.broadcast(mine, root)
        assert front.dtype(result) == "bool"
        assert front.array(result).tolist() == [True, False, True] * 5
        assert front.hvd.broadcast_(mine, root) is mine
        assert front.array(mine).tolist() == [True, False, True] * 5


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_ragged_allgather(front: FrontEnd, peers: Peers) -> None:
    mine = front.tensor(numpy.full((peers.rank, 2), peers.rank % 2 == 0), "bool")
    rows = [[rank % 2 == 0] * 2 for rank in range(peers.size) for _ in range(rank)]
    assert front.array(front.hvd.allgather(mine)).tolist() == rows


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_alltoall(front: FrontEnd, peers: Peers) -> None:
    splits = [to + 1 for to in range(peers.size)]
    mine = front.tensor([peers.rank % 2 == to % 2 for to in range(peers.size) for _ in range(to + 1)], "bool")
    result, received = front.hvd.alltoall(mine, splits)
    assert front.dtype(result) == "bool"
    assert received.tolist() == [peers.rank + 1] * peers.size
    expected = [sender % 2 == peers.rank % 2 for sender in range(peers.size) for _ in range(peers.rank + 1)]
    assert front.array(result).tolist() == expected


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_groups(front: FrontEnd, peers: Peers) -> None:
    calls = front.hvd
    flags = front.tensor([peers.rank == 0] * peers.size, "bool")
    for op, expected in {"Sum": True, "Max": True, "Product": False, "Min": False}.items():
        reduced, numbers = calls.grouped_allreduce([flags, front.tensor([1], "int32")], op=getattr(calls, op))
        assert front.array(reduced).tolist() == [expected] * peers.size
        assert numbers.tolist() == [peers.size if op == "Sum" else 1]
    with pytest.raises(ValueError, match=r"(?i)bool.*average|average.*bool"):
        calls.grouped_allreduce([front.tensor([1], "int32"), flags])
    gathered, _ = calls.grouped_allgather([flags, flags])
    assert front.array(gathered).tolist() == [r == 0 for r in range(peers.size) for _ in range(peers.size)]
    (shared,) = calls.grouped_reducescatter([flags], op=calls.Sum)
    assert front.array(shared).tolist() == [True]


def test_broadcast_parameters_with_a_bool_buffer(peers: Peers) -> None:
    model = torch.nn.Linear(2, 2)
    model.register_buffer("mask", torch.tensor([peers.rank == 0, peers.rank != 0]))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    assert model.mask.tolist() == [True, False]
    peers.assert_same_bits(*model.state_dict().values())
