"""The forms and options of allreduce."""

from __future__ import annotations

import numpy
import pytest
import torch
from front_ends import FLOATS, TORCH
from harness.peers import Peers
from reference import rank_values

import hora
import hora.torch as hvd

RANKS = (2, 3, 4)


def test_old_average_argument(peers: Peers) -> None:
    total = peers.size * (peers.size - 1) / 2
    assert hvd.allreduce(torch.tensor([float(peers.rank)]), average=False).item() == total
    assert hvd.allreduce(torch.tensor([float(peers.rank)]), average=True).item() == total / peers.size
    with pytest.raises(ValueError, match="average"):
        hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == peers.size


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", ["Min", "Max"])
@pytest.mark.parametrize("length", [1, 2, 7, 64, 1000])
def test_minimum_and_maximum_pass_nan_on(dtype: str, reduction: str, length: int, peers: Peers) -> None:
    for owner in range(peers.size):
        mine = torch.full((length,), float(peers.rank), dtype=getattr(torch, dtype))
        if peers.rank == owner:
            mine[length // 2] = float("nan")
        result = hvd.allreduce(mine, op=getattr(hvd, reduction))
        assert result.isnan().nonzero().flatten().tolist() == [length // 2]


@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_and_signed_zeros(dtype: str, peers: Peers) -> None:
    infinite = torch.tensor([float("inf"), float("-inf"), -0.0], dtype=getattr(torch, dtype))
    result = hvd.allreduce(infinite, op=hvd.Sum)
    assert result.tolist() == [float("inf"), float("-inf"), 0.0]
    peers.assert_same_bits(result)


def test_equal_calls_give_equal_bits(peers: Peers) -> None:
    mine = TORCH.tensor(rank_values("float32", 70_001, peers.rank), "float32")
    results = [hvd.allreduce(mine, op=hvd.Sum) for _ in range(10)]
    assert all(torch.equal(result, results[0]) for result in results)


@pytest.mark.parametrize("elements", [1 << 20, (3 << 20) + 1])
def test_many_megabytes(elements: int, peers: Peers) -> None:
    result = hora.allreduce(numpy.arange(elements, dtype="float64") * (peers.rank + 1), op=hora.Sum)
    factor = peers.size * (peers.size + 1) / 2
    numpy.testing.assert_array_equal(result, numpy.arange(elements, dtype="float64") * factor)


def test_unnamed_calls_pair_in_order(peers: Peers) -> None:
    handles = [hvd.allreduce_async(torch.full((3,), float(number)), op=hvd.Sum) for number in range(50)]
    for number, handle in reversed(list(enumerate(handles))):
        assert hvd.synchronize(handle).tolist() == [number * peers.size] * 3


def test_named_calls_pair_whatever_their_order(peers: Peers) -> None:
    numbers = list(range(40))
    if peers.rank % 2:
        numbers.reverse()
    handles = {
        n: hvd.allreduce_async(torch.full((n + 1,), float(n)), name=f"order.{n}", op=hvd.Sum) for n in numbers
    }
    for number in range(40):
        assert hvd.synchronize(handles[number]).tolist() == [number * peers.size] * (number + 1)


def test_compression_returns_the_original_dtype(peers: Peers) -> None:
    for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64):
            mine = torch.arange(10).to(dtype) + peers.rank
            result = hvd.allreduce(mine, op=hvd.Sum, compression=compression)
            assert result.dtype == dtype
            expected = torch.arange(10) * peers.size + peers.size * (peers.size - 1) // 2
            assert result.tolist() == expected.tolist()
