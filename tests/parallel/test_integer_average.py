"""The average of integers is the sum, truncated toward zero, in every front end and form of the call."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
from front_ends import INTEGERS, FrontEnd, combinations
from harness.peers import Peers

RANKS = (2, 3, 4)


def calls(front: FrontEnd) -> list[Callable[..., object]]:
    """Return every form of allreduce, each as a function of a tensor."""
    hvd = front.hvd
    return [
        lambda tensor: hvd.allreduce(tensor),
        lambda tensor: hvd.allreduce_(tensor),
        lambda tensor: hvd.allreduce(tensor, op=hvd.Average),
        lambda tensor: hvd.synchronize(hvd.allreduce_async(tensor, op=hvd.Average)),
        lambda tensor: hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Average)),
    ]


def truncated_mean(values: list[int]) -> int:
    total = sum(values)
    return (abs(total) // len(values)) * (1 if total >= 0 else -1)


@pytest.mark.parametrize(("front", "dtype"), combinations(INTEGERS), ids=str)
@pytest.mark.parametrize("first", [3, -4, -3, 0, 1, -1])
def test_truncates_toward_zero(front: FrontEnd, dtype: str, first: int, peers: Peers) -> None:
    values = [first + (1 if rank % 2 else 0) for rank in range(peers.size)]
    if dtype == "uint8":
        values = [abs(value) for value in values]
    for call in calls(front):
        result = call(front.tensor(numpy.full(5, values[peers.rank]), dtype))
        assert front.dtype(result) == dtype
        assert front.array(result).tolist() == [truncated_mean(values)] * 5


@pytest.mark.parametrize("front_dtype", combinations(("uint8", "int8")), ids=str)
def test_sum_wraps_before_the_division(front_dtype: tuple[FrontEnd, str], peers: Peers) -> None:
    front, dtype = front_dtype
    total = int(numpy.array(100 * peers.size).astype(dtype))
    result = front.hvd.allreduce(front.tensor([100], dtype))
    assert front.array(result).tolist() == [truncated_mean([total] + [0] * (peers.size - 1))]


@pytest.mark.parametrize(("front", "dtype"), combinations(("int64",)), ids=str)
def test_large_integers_keep_every_digit(front: FrontEnd, dtype: str, peers: Peers) -> None:
    value = 2**60 + 1
    assert front.array(front.hvd.allreduce(front.tensor([value], dtype), op=front.hvd.Max)).tolist() == [
        value
    ]
    assert front.array(front.hvd.allreduce(front.tensor([value], dtype))).tolist() == [value]
