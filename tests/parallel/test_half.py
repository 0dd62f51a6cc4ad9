"""Averages of half types are right whenever the mean fits the type, whatever the sum is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness.peers import Peers

import hora
import hora.torch as hvd

RANKS = (2, 3, 4)
HALVES = [torch.float16, torch.bfloat16]


def beside_others(tensor: torch.Tensor) -> torch.Tensor:
    """Reduce a tensor while others of both halves are in flight."""
    handles = [hvd.allreduce_async(torch.full_like(tensor, number), name=f"{number}") for number in range(5)]
    handles.append(hvd.allreduce_async(tensor, name="wanted"))
    handles.append(hvd.allreduce_async(torch.ones(9, dtype=torch.bfloat16), name="last"))
    return [hvd.synchronize(handle) for handle in handles][-2]


def sparse(tensor: torch.Tensor) -> torch.Tensor:
    entries = torch.sparse_coo_tensor(torch.arange(len(tensor))[None], tensor, tensor.shape)
    return hvd.sparse_allreduce_async(entries)().to_dense()


def gradient(tensor: torch.Tensor, **options: float) -> torch.Tensor:
    """Return the averaged gradient of a parameter whose gradient is `tensor` on this rank."""
    weight = torch.nn.Parameter(torch.zeros_like(tensor))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), **options)
    (weight * tensor).sum().backward()
    optimizer.step()
    assert torch.equal(weight, -weight.grad)
    return weight.grad


# Each averages a tensor over the ranks; all rows have the same value.
AVERAGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "asynchronous": lambda tensor: hvd.synchronize(hvd.allreduce_async(tensor)),
    "asynchronous in place": lambda tensor: hvd.synchronize(hvd.allreduce_async_(tensor)),
    "grouped": lambda tensor: hvd.grouped_allreduce([torch.ones(3), tensor])[1],
    "grouped in place": lambda tensor: hvd.grouped_allreduce_([torch.ones(3), tensor])[1],
    "reducescatter": lambda tensor: hvd.reducescatter(tensor),
    "grouped reducescatter": lambda tensor: hvd.grouped_reducescatter([torch.ones(9), tensor])[1],
    "fused": beside_others,
    "sparse": sparse,
    "gradient": gradient,
    "predivided gradient": lambda tensor: gradient(tensor, gradient_predivide_factor=2.0),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("form", AVERAGES)
def test_every_average_is_finite_and_not_zero(form: str, dtype: torch.dtype, peers: Peers) -> None:
    info = torch.finfo(dtype)
    for value in (30000.0, info.max / 2, -info.max, 6e-8, info.smallest_normal * info.eps):
        if abs(value) == info.max and (dtype is torch.bfloat16 or form.startswith("predivided")):
            continue  # sums of float32 overflow here, or are rounded more than once
        mine = torch.full((13,), value, dtype=dtype)
        result = AVERAGES[form](mine.clone())
        assert len(result) > 0 or form.endswith("reducescatter")
        assert torch.equal(result, mine[: len(result)]), value


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
