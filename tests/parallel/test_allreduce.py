"""The forms and options of allreduce."""

from __future__ import annotations

import numpy
import pytest
import torch
from front_ends import DTYPES, FLOATS, INTEGERS, TORCH
from harness.peers import Peers
from reference import REDUCTIONS, assert_reduced, lengths, rank_values, wrapped

import hora
import hora.torch as hvd

RANKS = (2, 3, 4)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_asynchronous_forms_equal_the_reference(dtype: str, reduction: str, peers: Peers) -> None:
    op = getattr(hvd, reduction)
    inputs = [
        [rank_values(dtype, n, rank, seed=5) for rank in range(peers.size)] for n in lengths(peers.size)
    ]
    mine = [TORCH.tensor(values[peers.rank], dtype) for values in inputs]
    copies = [tensor.clone() for tensor in mine]
    fresh = [hvd.allreduce_async(tensor, name=f"out.{at}", op=op) for at, tensor in enumerate(mine)]
    in_place = [hvd.allreduce_async_(tensor, name=f"in.{at}", op=op) for at, tensor in enumerate(copies)]
    for at, values in enumerate(inputs):
        assert_reduced(TORCH.array(hvd.synchronize(fresh[at])), reduction, values, dtype)
        result = hvd.synchronize(in_place[at])
        assert result.data_ptr() == copies[at].data_ptr()
        assert_reduced(TORCH.array(result), reduction, values, dtype)
        numpy.testing.assert_array_equal(TORCH.array(mine[at]), values[peers.rank])


def test_old_average_argument(peers: Peers) -> None:
    total = peers.size * (peers.size - 1) / 2
    assert hvd.allreduce(torch.tensor([float(peers.rank)]), average=False).item() == total
    assert hvd.allreduce(torch.tensor([float(peers.rank)]), average=True).item() == total / peers.size
    with pytest.raises(ValueError, match="average"):
        hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == peers.size


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bool"])
@pytest.mark.parametrize(("before", "after"), [(2.0, 1.0), (1.0, 0.5), (0.5, 3.0), (-1.5, 1.0), (0.0, 1.0)])
def test_scale_factors(dtype: str, before: float, after: float, peers: Peers) -> None:
    inputs = [rank_values(dtype, 1001, rank, seed=3) for rank in range(peers.size)]
    mine = TORCH.tensor(inputs[peers.rank], dtype)
    result = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=before, postscale_factor=after)
    peers.assert_same_bits(result)
    if dtype in INTEGERS:
        if dtype == "uint8" and before < 0:
            return  # a negative number in an unsigned type has no meaning to check
        scaled = [wrapped(numpy.trunc(values * before), dtype) for values in inputs]
        total = wrapped(sum(scaled), dtype)
        numpy.testing.assert_array_equal(TORCH.array(result), wrapped(numpy.trunc(total * after), dtype))
    else:
        assert_reduced(TORCH.array(result), "Sum", [values * before * after for values in inputs], dtype)


def test_scale_factors_of_bool_are_refused(peers: Peers) -> None:
    with pytest.raises(ValueError):
        hvd.allreduce(torch.tensor([True]), op=hvd.Sum, prescale_factor=2.0)
    assert hvd.allreduce(torch.tensor([peers.rank == 0]), op=hvd.Sum).item() is True


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
