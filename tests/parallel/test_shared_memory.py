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
    assert "instead of shared memory" in capfd.readouterr().err
    assert hvd.allreduce(torch.ones(1000), op=hvd.Sum).eq(hvd.size()).all()
    assert hvd.shared_empty(10).fill_(1).sum() == 10


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
