"""Arrays on GPUs: the collectives of Python over stand-ins for CUDA's driver and NCCL."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from device_arrays import SETTINGS, DeviceArray, make_front_end, on_device
from front_ends import DTYPES, FLOATS, NUMPY
from harness.peers import Peers
from reference import REDUCTIONS, assert_reduced, lengths, rank_values

import hora
from hora import HorovodInternalError, ProcessSet

RANKS = (2, 4)

pytestmark = pytest.mark.timeout(60)
REDUCED = [
    (dtype, reduction)
    for dtype in DTYPES
    for reduction in REDUCTIONS
    if (dtype, reduction) != ("bool", "Average")
]


@pytest.fixture(scope="module")
def hvd(session: None) -> Iterator[SimpleNamespace]:
    """The front end for device arrays, in a session that knows the stand-ins."""
    before = dict(os.environ)
    hora.shutdown()
    os.environ.update({name: str(path) for name, path in SETTINGS.items()})
    hora.init()
    yield make_front_end()
    hora.shutdown()
    os.environ.clear()
    os.environ.update(before)
    hora.init()


def values_of(array: DeviceArray) -> numpy.ndarray:
    values = array.numpy()
    return values.astype({"b": "bool", "f": "float64"}.get(values.dtype.kind, "int64"))


def assert_close(got: numpy.ndarray, reduction: str, inputs: list[numpy.ndarray], dtype: str) -> None:
    """Halves are summed in their own type by NCCL, one rounding for each rank."""
    if dtype not in ("float16", "bfloat16") or reduction in ("Min", "Max"):
        assert_reduced(got, reduction, inputs, dtype)
        return
    epsilon = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype] * (len(inputs) + 1)
    stacked = numpy.stack(inputs)
    expected = {"Average": numpy.mean, "Sum": numpy.sum, "Product": numpy.prod}[reduction](stacked, axis=0)
    bound = abs(stacked).sum(axis=0) if reduction != "Product" else abs(expected)
    assert numpy.all(abs(got - expected) <= epsilon * bound + 1e-7)


def test_libraries_are_found(hvd: SimpleNamespace) -> None:
    assert hora.cuda_built() is True
    assert hora.nccl_built() == 22809


@pytest.mark.parametrize(("dtype", "reduction"), REDUCED)
def test_allreduce_equals_the_reference(
    dtype: str, reduction: str, hvd: SimpleNamespace, peers: Peers
) -> None:
    op = getattr(hvd, reduction)
    for length in lengths(peers.size):
        inputs = [rank_values(dtype, length, rank, seed=5) for rank in range(peers.size)]
        mine = on_device(inputs[peers.rank], dtype)
        fresh = hvd.allreduce(mine, op=op)
        assert_close(values_of(fresh), reduction, inputs, dtype)
        numpy.testing.assert_array_equal(values_of(mine), inputs[peers.rank])
        in_place = hvd.allreduce_(mine, op=op)
        assert in_place is mine
        numpy.testing.assert_array_equal(values_of(mine), values_of(fresh))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bool"])
@pytest.mark.parametrize(("before", "after"), [(2.0, 1.0), (1.0, 0.5), (-1.5, 2.0)])
def test_scale_factors(dtype: str, before: float, after: float, hvd: SimpleNamespace, peers: Peers) -> None:
    if dtype == "uint8" and before < 0:
        pytest.skip("a negative number in an unsigned type has no meaning to check")
    inputs = [rank_values(dtype, 1001, rank, seed=3) for rank in range(peers.size)]
    mine = on_device(inputs[peers.rank], dtype)
    result = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=before, postscale_factor=after)
    if dtype in FLOATS:
        assert_close(values_of(result), "Sum", [values * before * after for values in inputs], dtype)
    else:
        scaled = [numpy.trunc(values * before).astype(dtype).astype("int64") for values in inputs]
        total = sum(scaled).astype(dtype).astype("int64")
        numpy.testing.assert_array_equal(values_of(result), numpy.trunc(total * after).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_broadcast_from_every_root(dtype: str, hvd: SimpleNamespace, peers: Peers) -> None:
    for root in range(peers.size):
        inputs = [rank_values(dtype, (3, 5), rank, seed=root) for rank in range(peers.size)]
        mine = on_device(inputs[peers.rank], dtype)
        numpy.testing.assert_array_equal(values_of(hvd.broadcast(mine, root)), inputs[root])
        hvd.broadcast_(mine, root)
        numpy.testing.assert_array_equal(values_of(mine), inputs[root])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("even", [True, False])
def test_allgather(dtype: str, even: bool, hvd: SimpleNamespace, peers: Peers) -> None:
    inputs = [rank_values(dtype, (2 if even else rank, 3), rank, seed=1) for rank in range(peers.size)]
    result = hvd.allgather(on_device(inputs[peers.rank], dtype))
    numpy.testing.assert_array_equal(values_of(result), numpy.concatenate(inputs))


@pytest.mark.parametrize("dtype", DTYPES)
def test_alltoall_with_splits(dtype: str, hvd: SimpleNamespace, peers: Peers) -> None:
    splits = [[(rank + to) % 3 for to in range(peers.size)] for rank in range(peers.size)]
    inputs = [rank_values(dtype, (sum(splits[rank]), 2), rank, seed=2) for rank in range(peers.size)]
    result, received = hvd.alltoall(on_device(inputs[peers.rank], dtype), splits=splits[peers.rank])
    assert received.numpy().tolist() == [row[peers.rank] for row in splits]
    parts = [numpy.split(values, numpy.cumsum(row)[:-1]) for values, row in zip(inputs, splits, strict=True)]
    numpy.testing.assert_array_equal(
        values_of(result), numpy.concatenate([part[peers.rank] for part in parts])
    )


@pytest.mark.parametrize("dtype", ["int16", "int32", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("op", ["Sum", "Average"])
@pytest.mark.parametrize("extra", [0, 1])
def test_reducescatter(dtype: str, op: str, extra: int, hvd: SimpleNamespace, peers: Peers) -> None:
    rows = 2 * peers.size + extra
    inputs = [rank_values(dtype, (rows, 3), rank, seed=7) for rank in range(peers.size)]
    result = hvd.reducescatter(on_device(inputs[peers.rank], dtype), op=getattr(hvd, op))
    mine = [numpy.array_split(values, peers.size)[peers.rank] for values in inputs]
    assert_close(values_of(result), op, mine, dtype)


def test_groups_of_several_dtypes(hvd: SimpleNamespace, peers: Peers) -> None:
    for name in ("grouped_allreduce", "grouped_allreduce_"):
        arrays = [on_device(numpy.full(n + 1, peers.rank), dtype) for n, dtype in enumerate(DTYPES[1:])]
        results = getattr(hvd, name)(arrays, op=hvd.Sum)
        total = peers.size * (peers.size - 1) // 2
        assert [values_of(result).tolist() for result in results] == [
            [total] * (n + 1) for n in range(len(arrays))
        ]
    gathered = hvd.grouped_allgather(
        [on_device([peers.rank], "int32"), on_device(numpy.ones((1, 2)), "float32")]
    )
    assert values_of(gathered[0]).tolist() == list(range(peers.size))
    assert gathered[1].shape == (peers.size, 2)


def test_many_in_flight_together(hvd: SimpleNamespace, peers: Peers) -> None:
    arrays = [on_device(numpy.full(n, peers.rank + 1.0), "float32") for n in range(1, 200)]
    handles = [hvd.allreduce_async_(array, name=f"many.{n}", op=hvd.Sum) for n, array in enumerate(arrays)]
    for handle in handles:
        hvd.synchronize(handle)
    total = peers.size * (peers.size + 1) / 2
    assert all((values_of(array) == total).all() for array in arrays)


def test_arrays_and_handles_may_be_dropped_at_once(hvd: SimpleNamespace, peers: Peers) -> None:
    for number in range(50):
        hvd.allreduce_async_(on_device(numpy.ones(1000), "float32"), name=f"dropped.{number}")
        hvd.allgather_async(on_device(numpy.ones(10), "float32"), name=f"dropped too.{number}")
    gc.collect()
    assert values_of(hvd.allreduce(on_device([1.0], "float32"), op=hvd.Sum)).tolist() == [peers.size]
    hora.barrier()


def test_results_outlive_what_they_came_from(hvd: SimpleNamespace, peers: Peers) -> None:
    kept = [hvd.allgather(on_device(numpy.full(100, number), "int64")) for number in range(20)]
    gc.collect()
    for number, array in enumerate(kept):
        assert (values_of(array) == number).all()


def test_process_sets(hvd: SimpleNamespace, peers: Peers) -> None:
    even = hora.add_process_set(ProcessSet(range(0, peers.size, 2)))
    if even.included():
        result = hvd.allreduce(on_device([peers.rank], "int32"), op=hvd.Sum, process_set=even)
        assert values_of(result).tolist() == [sum(range(0, peers.size, 2))]
    result = hvd.allreduce(on_device([peers.rank], "int32"), op=hvd.Sum)
    assert values_of(result).tolist() == [sum(range(peers.size))]
    hora.remove_process_set(even)


def test_join_without_having_used_the_device(hvd: SimpleNamespace, peers: Peers) -> None:
    if peers.rank > 0:
        for _ in range(3):
            result = hvd.allreduce(on_device([2.0, 4.0], "float32"), op=hvd.Average)
            assert values_of(result).tolist() == [2.0, 4.0]
    hora.join(peers.rank)


def test_host_and_device_on_different_ranks_is_a_mismatch(hvd: SimpleNamespace, peers: Peers) -> None:
    with pytest.raises(HorovodInternalError, match=r"(?s)differ in device\n.*0 +host .*1.* cuda "):
        if peers.rank == 0:
            hora.allreduce(NUMPY.tensor([1.0], "float32"), name="mixed")
        else:
            hvd.allreduce(on_device([1.0], "float32"), name="mixed")
    assert values_of(hvd.allreduce(on_device([1.0], "float32"), op=hvd.Sum)).tolist() == [peers.size]


def test_adasum_is_refused(hvd: SimpleNamespace, peers: Peers) -> None:
    with pytest.raises((ValueError, HorovodInternalError), match="Adasum is not available on GPUs"):
        hvd.allreduce(on_device([1.0], "float32"), op=hora.Adasum)


def test_poll_tells_when_the_device_is_through(hvd: SimpleNamespace, peers: Peers) -> None:
    array = on_device(numpy.ones(10), "float32")
    handle = hvd.allreduce_async_(array, op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    result: Any = hvd.synchronize(handle)
    assert values_of(result).tolist() == [peers.size] * 10
