"""The only reduction of a step, for which the thread of TensorFlow that runs it works a while."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy
import pytest
import tensorflow as tf
from tensorflow_ranks import RANK, SIZE, same_everywhere

import hora
import hora.tensorflow as hvd
from hora.tensorflow import gradients

RANKS = (2, 3)
LAUNCH = "tensorflow"

TOTAL = SIZE * (SIZE + 1) / 2
Step = Callable[..., list[tf.Tensor]]


def variables_of(*kinds: tuple[str, tuple[int, ...]]) -> list[tf.Variable]:
    return [tf.Variable(tf.ones(shape, dtype)) for dtype, shape in kinds]


def step_of(variables: list[tf.Variable], values: list[numpy.ndarray], **options: object) -> Step:
    """Return a graph that reduces the gradients of variables, which are the values."""

    @tf.function
    def step() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            products = [variable * value for variable, value in zip(variables, values, strict=True)]
            loss = tf.add_n([tf.reduce_sum(tf.cast(each, tf.float64)) for each in products])
        return hvd.DistributedGradientTape(tape, **options).gradient(loss, variables)

    return step


def drawn(variables: list[tf.Variable]) -> list[numpy.ndarray]:
    draw = numpy.random.default_rng(RANK)
    return [draw.normal(size=each.shape).astype(each.dtype.as_numpy_dtype) for each in variables]


def patience_of(step: Step) -> list[int]:
    nodes = step.get_concrete_function().graph.as_graph_def().node
    return [each.attr["patience_us"].i for each in nodes if each.op == "HoraAllreduce"]


@pytest.mark.parametrize(("groups", "patient"), [(None, [True]), (1, [True]), (2, [False, False])])
def test_only_a_reduction_without_others_is_worked_for(groups: int | None, patient: list[bool]) -> None:
    variables = variables_of(("float32", (3,)), ("float32", ()))
    step = step_of(variables, [numpy.float32(1), numpy.float32(2)], groups=groups)
    assert [each > 0 for each in patience_of(step)] == patient


def test_a_large_one_is_not_worked_for() -> None:
    (variable,) = variables_of(("float32", (gradients.RUN_BYTES // 4,)))
    assert patience_of(step_of([variable], [numpy.float32(1)])) == [0]


def test_one_beside_slices_is_not_worked_for() -> None:
    table, weight = variables_of(("float32", (4, 2)), ("float32", ()))

    @tf.function
    def step() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [RANK])) * weight
        slices, dense = hvd.DistributedGradientTape(tape).gradient(loss, [table, weight])
        return [slices.values, dense]

    assert patience_of(step) == [0]


def test_results_have_the_same_bits_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    small = [(dtype, shape) for dtype in ("float16", "float32", "float64") for shape in ((), (0,), (7, 3))]
    variables = variables_of(*small, ("float32", (300, 1000)), ("bfloat16", (65,)))
    values = drawn(variables)
    patient = step_of(variables, values)
    results = [patient() for _ in range(3)][-1]
    monkeypatch.setattr(gradients, "PATIENCE_US", 0)
    other = step_of(variables, values)
    assert (len(patience_of(patient)), patience_of(other)) == (1, [0])
    for one, two in zip(results, other(), strict=True):
        assert one.dtype == two.dtype
        assert one.numpy().tobytes() == two.numpy().tobytes()
        assert same_everywhere(one.numpy())


def test_computation_goes_on_once_patience_is_over() -> None:
    (variable,) = variables_of(("float32", (2,)))
    reduce = step_of([variable], [numpy.float32(RANK + 1)], op=hvd.Sum)

    @tf.function
    def step() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        (reduced,) = reduce()
        others = tf.py_function(time.monotonic, [], tf.float64)
        finished = tf.py_function(lambda each: time.monotonic(), [reduced], tf.float64)
        return reduced, others, finished

    step()
    hora.barrier()
    if RANK == 0:
        time.sleep(2)
    reduced, others, finished = step()
    assert reduced.numpy().tolist() == [TOTAL, TOTAL]
    if RANK != 0:
        assert float(finished) - float(others) > 0.5


def test_two_steps_in_one_graph_may_run_in_different_orders() -> None:
    """On each rank the one comes first that the other ranks have to wait for."""
    first, second = variables_of(("float32", ()), ("float32", (4,)))

    @tf.function
    def step() -> list[tf.Tensor]:
        slow = tf.random.stateless_normal((300, 300), seed=(1, 2))
        for _ in range(10):
            slow = tf.linalg.matmul(slow, slow) * 1e-2
        delay = tf.reduce_sum(slow) * 0.0
        results = []
        for number, variable in enumerate((first, second)):
            with tf.GradientTape() as tape:
                late = delay if number % SIZE == RANK else 0.0
                loss = tf.reduce_sum(variable) * (RANK + 1.0 + late)
            results += hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, [variable])
        return results

    assert len(patience_of(step)) == 2
    assert all(patience_of(step))
    for _ in range(5):
        one, two = step()
        assert (float(one), two.numpy().tolist()) == (TOTAL, [TOTAL] * 4)


def test_one_tensor_that_differs_fails_on_all_ranks_and_the_next_step_works() -> None:
    kinds = [("float32", (3,)), ("float32", (2, 3) if RANK == 0 else (3, 2)), ("float64", ())]
    variables = variables_of(*kinds)
    with pytest.raises(tf.errors.FailedPreconditionError, match="shape of tensor 1 of 3"):
        step_of(variables, [numpy.ones((), dtype) for dtype, _ in kinds])()
    same = step_of(variables[::2], [numpy.float32(RANK + 1), numpy.float64(RANK + 1)], op=hvd.Sum)
    assert [each.numpy().tolist() for each in same()] == [[TOTAL] * 3, TOTAL]
