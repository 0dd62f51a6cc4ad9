"""Memory that the ranks of a host share: where it comes from, and what may be done with it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import hora
import hora.numpy
import hora.torch as hvd
from hora import _core

RANKS = (2, 3)

LENGTHS = (1, 1000, 100_000)


@pytest.mark.parametrize("shared_memory", ["true", "false"])
def test_shared_arrays_are_reduced_in_place(restart: Callable[..., None], shared_memory: str) -> None:
    restart(HORA_SHARED_MEMORY=shared_memory)
    for length in LENGTHS:
        array = hora.numpy.shared_empty(length, np.float64)
        array[:] = np.arange(length) + hora.rank()
        assert hora.allreduce_(array, op=hora.Sum) is array
        np.testing.assert_array_equal(array, np.arange(length) * hora.size() + sum(range(hora.size())))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_shared_tensors_are_reduced_in_place(dtype: torch.dtype) -> None:
    tensors = [hvd.shared_empty(length, 3, dtype=dtype).fill_(hvd.rank() + 1) for length in LENGTHS]
    hvd.grouped_allreduce_(tensors, op=hvd.Sum)
    for tensor in tensors:
        assert tensor.eq(sum(range(1, hvd.size() + 1))).all()


def test_shared_and_ordinary_tensors_of_different_ranks_meet() -> None:
    tensor = torch.ones(100_000) if hvd.rank() == 1 else hvd.shared_empty(100_000).fill_(1)
    hvd.allreduce_(tensor, op=hvd.Sum)
    assert tensor.eq(hvd.size()).all()


def test_views_of_a_shared_tensor_are_shared_too() -> None:
    whole = hvd.shared_empty(200_000).fill_(1)
    hvd.allreduce_(whole[50_000:150_000], op=hvd.Sum)
    assert whole[50_000:150_000].eq(hvd.size()).all()
    assert whole[:50_000].eq(1).all() and whole[150_000:].eq(1).all()


def test_shared_tensors_work_in_every_collective() -> None:
    tensor = hvd.shared_empty(hvd.size() * 10_000).fill_(hvd.rank())
    assert hvd.broadcast(tensor, 0).eq(0).all()
    assert hvd.allgather(tensor).view(hvd.size(), -1)[1].eq(1).all()
    assert hvd.alltoall(tensor)[:10_000].eq(0).all()
    assert hvd.reducescatter(tensor, op=hvd.Sum).eq(sum(range(hvd.size()))).all()


def test_empty_tensors_and_wrong_arguments() -> None:
    assert hvd.shared_empty(0, 3).shape == (0, 3)
    assert hvd.shared_empty([2, 3], dtype=torch.int8).shape == (2, 3)
    assert hora.numpy.shared_empty(()).shape == ()
    for wrong in (lambda: hvd.shared_empty(-1), lambda: hora.numpy.shared_empty((2, -1))):
        with pytest.raises(ValueError, match="negative"):
            wrong()
    with pytest.raises(ValueError, match="not supported"):
        hvd.shared_empty(1, dtype=torch.complex64)
    with pytest.raises(ValueError, match="not supported"):
        hora.numpy.shared_empty(1, np.complex64)


def test_memory_is_used_again_and_outlives_the_session(restart: Callable[..., None]) -> None:
    addresses = {hvd.shared_empty(1_000_000).data_ptr() for _ in range(10)}
    assert len(addresses) <= 2
    kept = hvd.shared_empty(1_000_000).fill_(3)
    hvd.barrier()
    restart()
    assert kept.eq(3).all()
    hvd.allreduce_(kept, op=hvd.Max)  # ordinary memory for the new session
    assert kept.eq(3).all()
    del kept
    gc.collect()


def test_a_full_heap_is_an_error_that_names_the_setting(restart: Callable[..., None]) -> None:
    restart(HORA_SHARED_HEAP_BYTES=1 << 20)
    with pytest.raises(RuntimeError, match="HORA_SHARED_HEAP_BYTES"):
        hvd.shared_empty(1 << 20)
    assert hvd.shared_empty(1 << 18).numel() == 1 << 18
    hvd.barrier()


def test_nothing_is_left_in_the_file_system(restart: Callable[..., None]) -> None:
    before = set(Path("/dev/shm").iterdir())
    restart(HORA_SHARED_MEMORY_DIRECTORY="/dev/shm")
    assert _core.transport() == "shared memory"
    hvd.allreduce_(hvd.shared_empty(100_000), op=hvd.Sum)
    assert {path for path in Path("/dev/shm").iterdir() if "hora" in path.name} <= before


def test_without_room_the_ranks_go_on_over_mpi(
    restart: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    restart(HORA_SHARED_MEMORY_DIRECTORY="/nonexistent")
    assert _core.transport() == "mpi"
    assert ("instead of shared memory" in capfd.readouterr().err) == (hvd.local_rank() == 0)
    assert hvd.allreduce(torch.ones(1000), op=hvd.Sum).eq(hvd.size()).all()
    assert hvd.shared_empty(10).fill_(1).sum() == 10
    hvd.barrier()


@pytest.mark.parametrize("reduction", ["one-phase", "two-phase"])
@pytest.mark.parametrize("streaming", ["true", "false"])
@pytest.mark.parametrize("block", [64, 4096, 524288])
def test_every_route_gives_the_same_bits(
    restart: Callable[..., None], reduction: str, streaming: str, block: int
) -> None:
    tensors = [torch.rand(length, generator=torch.Generator().manual_seed(hvd.rank())) for length in LENGTHS]
    expected = hvd.grouped_allreduce(tensors, op=hvd.Average)
    restart(HORA_REDUCTION=reduction, HORA_STREAMING=streaming, HORA_BLOCK_BYTES=block)
    for tensor, wanted in zip(tensors, expected, strict=True):
        assert torch.equal(hvd.allreduce(tensor, op=hvd.Average), wanted)
    restart(HORA_SHARED_MEMORY="false")
    if hvd.size() == 2:  # a ring reduces in another order from three ranks on
        assert torch.equal(hvd.allreduce(tensors[-1], op=hvd.Average), expected[-1])


def test_a_group_of_many_dtypes_of_a_few_bytes_each() -> None:
    dtypes = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)
    for _ in range(3):
        results = hvd.grouped_allreduce([torch.ones(2, dtype=dtype) for dtype in dtypes], op=hvd.Sum)
        assert all(result.eq(hvd.size()).all() for result in results)


def test_a_group_of_many_empty_allgathers() -> None:
    for result in hvd.grouped_allgather([torch.zeros(0, 2) for _ in range(9)]):
        assert result.shape == (0, 2)


def test_calls_that_different_ranks_made_before_they_joined_keep_apart() -> None:
    """Two calls wait for all to join: each has another contributor, and they must not be mixed up."""
    values = [torch.full((1000,), float(hvd.rank() + 1)) for _ in range(2)]
    handles = [
        hvd.allreduce_async(values[call], name=f"apart.{call}", op=hvd.Sum)
        for call in range(2)
        if hvd.rank() == hvd.size() - 1 or hvd.rank() == call
    ]
    if hvd.size() == 2:  # rank 0 made the first call alone, rank 1 both
        hvd.join()
        first = hvd.synchronize(handles[0])
        assert first.eq(3).all()
        if hvd.rank() == 1:
            assert hvd.synchronize(handles[1]).eq(2).all()
        return
    hvd.join()
    results = [hvd.synchronize(handle) for handle in handles]
    if hvd.rank() == 2:
        assert results[0].eq(4).all() and results[1].eq(5).all()
    else:
        assert results[0].eq(4 if hvd.rank() == 0 else 5).all()


def test_a_gradient_that_cannot_be_begun_fails_where_it_is_waited_for(restart: Callable[..., None]) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
    )
    model(torch.ones(1, 2)).sum().backward()
    hora.shutdown()
    with pytest.raises(hora.HorovodInternalError, match="could not begin"):
        optimizer.step()
    restart()
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
