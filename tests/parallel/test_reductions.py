"""Allreduce gives the float64 reference for every dtype, reduction and length; all ranks get equal bits."""

from __future__ import annotations

import numpy
import pytest
from front_ends import FRONT_ENDS, FrontEnd, combinations
from harness.peers import Peers
from reference import REDUCTIONS, assert_reduced, lengths, rank_values

RANKS = (2, 3, 4)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("front", "dtype"), combinations(), ids=str)
def test_equals_the_reference(front: FrontEnd, dtype: str, reduction: str, peers: Peers) -> None:
    if (dtype, reduction) == ("bool", "Average"):
        with pytest.raises(ValueError, match="bool"):
            front.hvd.allreduce(front.tensor([True], dtype), op=front.hvd.Average)
        return
    op = getattr(front.hvd, reduction)
    results = []
    for length in lengths(peers.size):
        inputs = [rank_values(dtype, length, rank, seed=length) for rank in range(peers.size)]
        mine = front.tensor(inputs[peers.rank], dtype)
        for in_place in (False, True):
            result = (front.hvd.allreduce_ if in_place else front.hvd.allreduce)(mine, op=op)
            if in_place:
                assert result is mine
            else:
                numpy.testing.assert_array_equal(front.array(mine), inputs[peers.rank])
            assert front.dtype(result) == dtype
            assert_reduced(front.array(result), reduction, inputs, dtype)
            results.append(result)
    peers.assert_same_bits(*results)


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 2), (0, 4), (2, 0), (1, 1, 1, 1, 5)])
def test_keeps_the_shape(front: FrontEnd, shape: tuple[int, ...], peers: Peers) -> None:
    result = front.hvd.allreduce(front.tensor(numpy.ones(shape), "float32"), op=front.hvd.Sum)
    assert tuple(result.shape) == shape
    assert (front.array(result) == peers.size).all()


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_default_is_average(front: FrontEnd, peers: Peers) -> None:
    mean = (peers.size - 1) / 2
    assert front.array(front.hvd.allreduce(front.tensor([peers.rank], "float64"))) == [mean]
    assert front.array(front.hvd.allreduce(front.tensor([peers.rank], "float64"), name="named")) == [mean]
