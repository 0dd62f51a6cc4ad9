"""Averages of half types are right whenever the mean fits the type, whatever the sum is."""

from __future__ import annotations

import pytest
import torch
from harness.peers import Peers

import hora
import hora.torch as hvd

RANKS = (2, 3, 4)
HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("length", [1, 3, 5, 1000, 70_001])
@pytest.mark.parametrize("value", [30000.0, -65504.0, 65504.0])
def test_average_of_float16_does_not_overflow(value: float, length: int, peers: Peers) -> None:
    for tensor in (
        hvd.allreduce(torch.full((length,), value, dtype=torch.float16)),
        hvd.allreduce_(torch.full((length,), value, dtype=torch.float16)),
    ):
        assert (tensor == value).all()
    array = hora.allreduce(torch.full((length,), value, dtype=torch.float16).numpy())
    assert (array == value).all()


@pytest.mark.parametrize("length", [1, 3, 5, 1000])
def test_average_of_bfloat16_does_not_overflow(length: int, peers: Peers) -> None:
    largest = torch.finfo(torch.bfloat16).max
    value = torch.full((length,), largest / 4, dtype=torch.bfloat16)
    assert torch.equal(hvd.allreduce(value), value)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("length", [1, 5, 1000])
def test_average_of_the_smallest_does_not_vanish(dtype: torch.dtype, length: int, peers: Peers) -> None:
    info = torch.finfo(dtype)
    smallest = torch.full((length,), info.smallest_normal * info.eps, dtype=dtype)
    assert torch.equal(hvd.allreduce(smallest), smallest)
    small = torch.full((length,), 6e-8, dtype=dtype)
    assert (small > 0).all()
    assert torch.equal(hvd.allreduce(small), small)


@pytest.mark.parametrize("dtype", HALVES)
def test_mean_of_different_large_values(dtype: torch.dtype, peers: Peers) -> None:
    result = hvd.allreduce(torch.full((9,), 2.0**13 * (peers.rank + 4), dtype=dtype))
    assert result.tolist() == [2.0**13 * (4 + (peers.size - 1) / 2)] * 9


@pytest.mark.parametrize("dtype", HALVES)
def test_partial_sums_keep_what_halves_would_lose(dtype: torch.dtype, peers: Peers) -> None:
    step = torch.finfo(dtype).eps
    mine = torch.full((33,), 1.0 if peers.rank == 0 else step / 2, dtype=dtype)
    exact = 1.0 + step / 2 * (peers.size - 1)
    assert torch.equal(
        hvd.allreduce(mine, op=hvd.Sum), torch.full((33,), exact, dtype=torch.float64).to(dtype)
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_sum_that_does_not_fit_is_infinite(dtype: torch.dtype, peers: Peers) -> None:
    assert hvd.allreduce(torch.full((5,), torch.finfo(dtype).max, dtype=dtype), op=hvd.Sum).isinf().all()


@pytest.mark.parametrize("dtype", HALVES)
def test_scaled_sum_fits_when_the_final_value_does(dtype: torch.dtype, peers: Peers) -> None:
    value = torch.full((17,), 2.0**15, dtype=dtype)
    result = hvd.allreduce(value, op=hvd.Sum, postscale_factor=1 / peers.size)
    assert torch.allclose(result, value, rtol=torch.finfo(dtype).eps)


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_average_of_compressed_values_does_not_overflow(compression: str, peers: Peers) -> None:
    value = torch.full((100,), 30000.0)
    result = hvd.allreduce(value, compression=getattr(hvd.Compression, compression))
    assert torch.allclose(result, value, rtol=0.01)
