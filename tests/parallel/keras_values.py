"""Collectives of values on any backend."""

from __future__ import annotations

import keras
import numpy
import pytest
from keras_ranks import RANK, SIZE

import hora.keras as hvd

FORMS = {
    "number": lambda values: values[0],
    "list": list,
    "array": numpy.array,
    "tensor": keras.ops.convert_to_tensor,
    "variable": keras.Variable,
}


@pytest.mark.parametrize("form", FORMS)
def test_allreduce_and_broadcast_take_any_form(form: str) -> None:
    value = FORMS[form]([RANK + 1.0, RANK * 2.0])
    expected = [(SIZE + 1) / 2, SIZE - 1.0]
    root = [float(SIZE), 2.0 * (SIZE - 1)]
    got = hvd.allreduce(value), hvd.broadcast(value, root_rank=SIZE - 1)
    assert all(isinstance(each, numpy.ndarray) for each in got)
    if form == "number":
        expected, root = expected[0], root[0]
    assert [each.tolist() for each in got] == [expected, root]


def test_reductions_and_factors() -> None:
    total = SIZE * (SIZE + 1) / 2
    assert float(hvd.allreduce(RANK + 1.0, op=hvd.Sum)) == total
    assert float(hvd.allreduce(RANK + 1.0, op=hvd.Max)) == SIZE
    assert float(hvd.allreduce(RANK + 1.0, None, None, 2.0, 0.5, hvd.Sum)) == total
    assert int(hvd.allreduce(numpy.int64(RANK + 1), op=hvd.Sum, name="integers")) == total
    with pytest.warns(DeprecationWarning, match="average is deprecated"):
        assert float(hvd.allreduce(RANK + 1.0, average=False)) == total


def test_compression_returns_the_dtype() -> None:
    result = hvd.allreduce(numpy.array([1 + 2**-12]), compression=hvd.Compression.fp16)
    assert (result.dtype, result.tolist()) == (numpy.float64, [1.0])
    with pytest.raises(ValueError, match="no bfloat16"):
        hvd.allreduce(numpy.ones(1), compression=hvd.Compression.bf16)


@pytest.mark.parametrize("form", ["list", "array", "tensor", "variable"])
def test_rows_are_gathered_and_scattered(form: str) -> None:
    rows = [[float(RANK)]] * (RANK + 1)
    gathered = hvd.allgather(FORMS[form](rows))
    assert gathered.flatten().tolist() == [float(rank) for rank in range(SIZE) for _ in range(rank + 1)]
    value = FORMS[form]([float(row) for row in range(2 * SIZE)])
    assert hvd.reducescatter(value).tolist() == [2.0 * RANK, 2.0 * RANK + 1]
    assert hvd.reducescatter(value, op=hvd.Sum).tolist() == [2.0 * RANK * SIZE, (2.0 * RANK + 1) * SIZE]


def test_ranks_that_disagree_all_learn_it() -> None:
    with pytest.raises(hvd.HorovodInternalError, match="shape"):
        hvd.allreduce(numpy.ones(RANK + 1))
    assert float(hvd.allreduce(1.0)) == 1.0


def test_global_variables_do_not_exist() -> None:
    with pytest.raises(RuntimeError, match="BroadcastGlobalVariablesCallback"):
        hvd.broadcast_global_variables(0)
