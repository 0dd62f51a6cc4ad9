"""Variables and objects of the root on all ranks; collectives without native kernels; starting again."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf
from reference import assert_reduced, rank_values
from tensorflow_ranks import RANK, SIZE, Mode, array, in_both_modes, of_all_dtypes, tensor

import hora.tensorflow as hvd
from hora.tensorflow import call, native, operations, python_kernels

RANKS = (2,)
LAUNCH = "tensorflow"


@in_both_modes
@pytest.mark.parametrize("function", ["broadcast_variables", "broadcast_"])
def test_variables_get_the_roots_values(mode: Mode, function: str) -> None:
    root = SIZE - 1
    kinds = ("float32", "bfloat16", "int64", "bool")
    variables = [tf.Variable(tensor(rank_values(dtype, (3,), RANK), dtype)) for dtype in kinds]
    mode(lambda: getattr(hvd, function)(variables, root) and None)()
    for dtype, variable in zip(kinds, variables, strict=True):
        numpy.testing.assert_array_equal(array(variable.value()), rank_values(dtype, (3,), root))


def test_variables_of_keras_and_its_optimizers_get_the_roots_values() -> None:
    tf.keras.utils.set_random_seed(RANK)
    model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(2)])
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    optimizer.apply([tf.random.normal(each.shape) for each in model.trainable_variables])
    for variables in (model.variables, optimizer.variables):
        hvd.broadcast_variables(variables, root_rank=0)
        values = [each.numpy().tobytes() for each in variables]
        assert hvd.allgather_object(values) == [values] * SIZE


def test_broadcasting_before_there_are_variables_warns() -> None:
    with pytest.warns(RuntimeWarning, match="no variables yet"):
        hvd.broadcast_variables(tf.keras.optimizers.SGD(momentum=0.9).variables[2:], root_rank=0)
    if RANK == 0:
        with pytest.warns(RuntimeWarning, match="no variables yet"):
            hvd.broadcast_variables([], root_rank=0)
    else:
        with pytest.raises(tf.errors.FailedPreconditionError, match="no variables yet"):
            hvd.broadcast_variables([tf.Variable(1.0)], root_rank=0)


def test_objects_travel() -> None:
    assert hvd.broadcast_object({"epoch": 3} if RANK == 0 else None) == {"epoch": 3}
    assert hvd.broadcast_object_fn(root_rank=SIZE - 1)(RANK) == SIZE - 1
    assert hvd.allgather_object(RANK) == list(range(SIZE))


def test_functions_work_after_a_new_start() -> None:
    @tf.function
    def step(value: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(value, op=hvd.Sum)

    assert float(step(tf.constant(1.0))) == SIZE
    hvd.shutdown()
    with pytest.raises(tf.errors.FailedPreconditionError, match="init"):
        step(tf.constant(1.0))
    hvd.init()
    assert float(step(tf.constant(1.0))) == SIZE


@pytest.fixture
def without_native_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (operations, hvd.collectives, hvd.world, hvd.gradients):
        monkeypatch.setattr(module, "kernels", python_kernels.PythonKernels)


def test_a_notice_says_why_there_are_no_native_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "problem", lambda: "TF_NewTensor is missing")
    with pytest.warns(RuntimeWarning, match="without its native kernels, because TF_NewTensor is missing"):
        assert isinstance(call.kernels.__wrapped__(), python_kernels.PythonKernels)


def test_a_library_that_is_missing_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "LIBRARY", native.LIBRARY.with_name("libhora_elsewhere.so"))
    ops, reason = native.load.__wrapped__()
    assert ops is None
    assert "libhora_elsewhere.so" in reason


@in_both_modes
@of_all_dtypes
@pytest.mark.usefixtures("without_native_kernels")
def test_python_kernels_do_what_native_ones_do(mode: Mode, dtype: str) -> None:
    def run(value: tf.Tensor) -> list[tf.Tensor]:
        rows, received = hvd.alltoall(value, [1, *[0] * (SIZE - 2), 2])
        return [
            hvd.allreduce(value, op=hvd.Max),
            hvd.broadcast(value, SIZE - 1),
            hvd.allgather(value[: RANK + 1]),
            hvd.reducescatter(value, op=hvd.Sum),
            rows,
            received,
        ]

    def of(rank: int) -> numpy.ndarray:
        return rank_values(dtype, (3, 2), rank)

    results = [array(each) for each in mode(run)(tensor(of(RANK), dtype))]
    inputs = [of(rank) for rank in range(SIZE)]
    assert_reduced(results[0], "Max", inputs, dtype)
    numpy.testing.assert_array_equal(results[1], of(SIZE - 1))
    numpy.testing.assert_array_equal(
        results[2], numpy.concatenate([of(rank)[: rank + 1] for rank in range(SIZE)])
    )
    if SIZE == 2:
        own = slice(0, 2) if RANK == 0 else slice(2, 3)
        assert_reduced(results[3], "Sum", [each[own] for each in inputs], dtype)
        part = slice(0, 1) if RANK == 0 else slice(1, 3)
        numpy.testing.assert_array_equal(results[4], numpy.concatenate([of(0)[part], of(1)[part]]))
        assert results[5].tolist() == [1 + RANK] * 2


@pytest.mark.usefixtures("without_native_kernels")
def test_many_collectives_in_python_need_no_thread_each() -> None:
    @tf.function
    def step(value: tf.Tensor) -> tf.Tensor:
        reduced = [hvd.allreduce(value * number, op=hvd.Sum) for number in range(30)]
        return tf.add_n(reduced) + tf.cast(hvd.size_op(), tf.float32) * 0.0

    for _ in range(3):
        assert float(step(tf.constant(1.0))) == sum(range(30)) * SIZE


@pytest.mark.usefixtures("without_native_kernels")
def test_python_kernels_raise_what_native_ones_raise() -> None:
    with pytest.raises(tf.errors.FailedPreconditionError, match="ranks differ in shape"):
        hvd.allreduce(tf.ones(RANK + 1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="root_rank 99"):
        hvd.broadcast(tf.constant(1.0), 99)
    assert float(hvd.allreduce(tf.constant(1.0))) == 1.0


@in_both_modes
@pytest.mark.usefixtures("without_native_kernels")
def test_python_kernels_are_differentiable(mode: Mode) -> None:
    def compute(value: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(value)
            loss = tf.reduce_sum(hvd.allgather(value) * (RANK + 1.0))
        return tape.gradient(loss, value)

    assert mode(compute)(tf.ones(2)).numpy().tolist() == [(SIZE + 1) / 2] * 2
