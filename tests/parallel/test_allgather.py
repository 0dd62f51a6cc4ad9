"""Allgather concatenates rows in rank order, however many each rank has."""

from __future__ import annotations

import numpy
import pytest
import torch
from front_ends import FRONT_ENDS, FrontEnd, combinations
from harness.peers import Peers
from reference import rank_values

import hora.torch as hvd

RANKS = (2, 3, 4)

# Rows of ranks 0, 1, ...
PATTERNS = [
    (0, 1, 5, 2),
    (0, 0, 0, 0),
    (3, 3, 3, 3),
    (0, 0, 7, 0),
    (7, 0, 0, 0),
    (1, 0, 0, 1),
    (2, 70_001, 0, 1),
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("front", "dtype"), combinations(), ids=str)
def test_ragged_rows(front: FrontEnd, dtype: str, pattern: tuple[int, ...], peers: Peers) -> None:
    inputs = [rank_values(dtype, (pattern[rank], 4), rank) for rank in range(peers.size)]
    mine = front.tensor(inputs[peers.rank], dtype)
    result = front.hvd.allgather(mine)
    assert front.dtype(result) == dtype
    numpy.testing.assert_array_equal(front.array(result), numpy.concatenate(inputs))
    numpy.testing.assert_array_equal(front.array(mine), inputs[peers.rank])
    peers.assert_same_bits(result)


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
@pytest.mark.parametrize("tail", [(), (1,), (0,), (2, 3), (4, 0, 2)])
def test_any_number_of_dimensions(front: FrontEnd, tail: tuple[int, ...], peers: Peers) -> None:
    mine = front.tensor(numpy.full((peers.rank + 1, *tail), peers.rank), "int32")
    result = front.hvd.allgather(mine, name="tail")
    rows = [rank for rank in range(peers.size) for _ in range(rank + 1)]
    assert tuple(result.shape) == (len(rows), *tail)
    expected = numpy.broadcast_to(numpy.reshape(rows, (-1, *[1] * len(tail))), result.shape)
    numpy.testing.assert_array_equal(front.array(result), expected)


def test_rows_that_change_from_call_to_call(peers: Peers) -> None:
    for step in range(30):
        counts = [(step * (rank + 1)) % 5 for rank in range(peers.size)]
        result = hvd.allgather(torch.full((counts[peers.rank], 2), float(peers.rank)), name="changing")
        assert result.tolist() == [
            [float(rank)] * 2 for rank in range(peers.size) for _ in range(counts[rank])
        ]


def test_many_at_once_and_out_of_order(peers: Peers) -> None:
    handles = [hvd.allgather_async(torch.full((peers.rank + n % 3,), n), name=f"g.{n}") for n in range(60)]
    for number, handle in reversed(list(enumerate(handles))):
        rows = sum(rank + number % 3 for rank in range(peers.size))
        assert hvd.synchronize(handle).tolist() == [number] * rows


def test_result_outlives_its_handle_and_is_writable(peers: Peers) -> None:
    result = hvd.allgather(torch.full((3,), float(peers.rank)))
    for _ in range(20):
        hvd.allgather(torch.full((3,), -1.0))
    result += 1
    assert result.tolist() == [rank + 1.0 for rank in range(peers.size) for _ in range(3)]
