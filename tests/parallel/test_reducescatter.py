"""Reducescatter reduces and gives each rank its share of the rows."""

from __future__ import annotations

import numpy
import pytest
import torch
from disagreement import assert_disagreement, assert_works, one_against_others
from front_ends import FRONT_ENDS, FrontEnd, combinations
from harness.peers import Peers
from reference import assert_reduced, rank_values

import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3, 4)


def share(rows: int, peers: Peers) -> slice:
    """Return which rows this rank gets: the first ranks get one more."""
    each, more = divmod(rows, peers.size)
    first = peers.rank * each + min(peers.rank, more)
    return slice(first, first + each + (peers.rank < more))


@pytest.mark.parametrize("op", ["Average", "Sum"])
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 11, 50_001])
@pytest.mark.parametrize(("front", "dtype"), combinations(), ids=str)
def test_rows_of_each_rank(front: FrontEnd, dtype: str, rows: int, op: str, peers: Peers) -> None:
    if dtype == "bool" and op == "Average":
        return
    inputs = [rank_values(dtype, (rows, 2), rank) for rank in range(peers.size)]
    mine = front.tensor(inputs[peers.rank], dtype)
    result = front.hvd.reducescatter(mine, op=getattr(front.hvd, op))
    assert front.dtype(result) == dtype
    assert_reduced(front.array(result), op, [values[share(rows, peers)] for values in inputs], dtype)
    numpy.testing.assert_array_equal(front.array(mine), inputs[peers.rank])


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_factors_and_compression(front: FrontEnd, peers: Peers) -> None:
    mine = front.tensor(numpy.ones((2 * peers.size, 3)), "float32")
    scaled = front.hvd.reducescatter(mine, op=front.hvd.Sum, prescale_factor=2, postscale_factor=0.5)
    assert scaled.tolist() == [[peers.size] * 3] * 2
    small = front.hvd.reducescatter(mine, compression=front.hvd.Compression.fp16)
    assert (front.dtype(small), small.tolist()) == ("float32", [[1.0] * 3] * 2)


def test_many_at_once_under_names(peers: Peers) -> None:
    handles = [
        hvd.reducescatter_async(torch.full((number, 2), 1.0 + peers.rank), name=f"r.{number}", op=hvd.Sum)
        for number in range(40)
    ]
    total = peers.size * (peers.size + 1) / 2
    for number, handle in reversed(list(enumerate(handles))):
        assert hvd.synchronize(handle).tolist() == [[total] * 2] * len(range(number)[share(number, peers)])


def test_shapes_must_agree(peers: Peers) -> None:
    mine = torch.ones(3 if peers.rank == 0 else 4)
    sent = one_against_others(0, peers.size, {"shape": "[3]"}, {"shape": "[4]"})
    assert_disagreement(peers, lambda: hvd.reducescatter(mine, name="rows"), "rows", sent)


def test_ops_must_agree(peers: Peers) -> None:
    op = hvd.Sum if peers.rank == 0 else hvd.Average
    sent = one_against_others(0, peers.size, {"op": "Sum"}, {"op": "Average"})
    mine = torch.ones(3)
    assert_disagreement(peers, lambda: hvd.reducescatter(mine, name="ops", op=op), "ops", sent)


def test_other_ops_and_scalars_are_refused(peers: Peers) -> None:
    for op in (hvd.Min, hvd.Max, hvd.Product):
        with pytest.raises(HorovodInternalError, match="Sum or Average"):
            hvd.reducescatter(torch.ones(3), op=op, name="op")
    with pytest.raises(ValueError, match="scalar"):
        hvd.reducescatter(torch.tensor(1.0), name="op")
    assert_works(peers, "op")
