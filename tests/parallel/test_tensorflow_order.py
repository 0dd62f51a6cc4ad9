"""Collectives in graphs: any order of execution, loops, branches, and functions that call functions."""

from __future__ import annotations

import threading
import time

import numpy
import pytest
import tensorflow as tf
from tensorflow_ranks import RANK, SIZE

import hora
import hora.tensorflow as hvd

RANKS = (2, 3)
LAUNCH = "tensorflow"

TOTAL = SIZE * (SIZE + 1) / 2


def test_many_collectives_need_no_thread_each() -> None:
    @tf.function
    def step(value: tf.Tensor) -> tf.Tensor:
        first = [hvd.allreduce(value * number, op=hvd.Sum) for number in range(200)]
        second = [hvd.allgather(tf.reshape(each, [1])) for each in first]
        return tf.add_n([tf.reduce_sum(each) for each in second])

    for _ in range(3):
        assert float(step(tf.constant(float(RANK + 1)))) == sum(range(200)) * TOTAL * SIZE


def test_ranks_may_run_a_graph_in_different_orders() -> None:
    """A chain that only some ranks have to compute first delays different collectives on each."""

    @tf.function
    def step(value: tf.Tensor) -> list[tf.Tensor]:
        slow = tf.random.stateless_normal((300, 300), seed=(1, 2))
        for _ in range(10):
            slow = tf.linalg.matmul(slow, slow) * 1e-2
        delay = tf.reduce_sum(slow) * 0.0
        values = [value + (delay if number % SIZE == RANK else 0.0) for number in range(20)]
        return [hvd.allreduce(each, op=hvd.Sum) * number for number, each in enumerate(values)]

    for _ in range(3):
        results = step(tf.constant(float(RANK + 1)))
        assert [float(each) for each in results] == [number * TOTAL for number in range(20)]


def test_collectives_of_one_step_travel_together() -> None:
    @tf.function
    def step(value: tf.Tensor) -> tf.Tensor:
        return tf.add_n([hvd.allreduce(value + number) for number in range(100)])

    step(tf.ones(10))
    before = hvd.metrics()
    step(tf.ones(10))
    after = hvd.metrics()
    assert after["tensors"] - before["tensors"] == 100
    assert after["batches"] - before["batches"] < 50


def test_inputs_that_others_want_keep_their_values() -> None:
    weight = tf.Variable([1.0 * (RANK + 1)])

    @tf.function
    def step(value: tf.Tensor) -> list[tf.Tensor]:
        shared, lone = value * 2.0, value * 3.0
        results = hvd.grouped_allreduce([shared, lone, weight, value], op=hvd.Sum)
        return [shared, value, weight.read_value(), *results]

    kept = [2.0 * (RANK + 1), RANK + 1.0, RANK + 1.0]
    for _ in range(3):
        results = step(tf.constant([RANK + 1.0]))
        assert [each.numpy()[0] for each in results] == [*kept, 2 * TOTAL, 3 * TOTAL, TOTAL, TOTAL]


def test_iterations_of_a_loop_do_not_meet() -> None:
    @tf.function
    def step(value: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([])
        for number in tf.range(100):
            total += hvd.allreduce(value * tf.cast(number, tf.float32), op=hvd.Sum)
        return total

    assert float(step(tf.constant(float(RANK + 1)))) == sum(range(100)) * TOTAL


def test_collectives_run_in_branches() -> None:
    @tf.function
    def step(value: tf.Tensor, takes_first: tf.Tensor) -> tf.Tensor:
        if takes_first:
            return hvd.allreduce(value, op=hvd.Sum)
        return hvd.allreduce(value, op=hvd.Max)

    value = tf.constant(float(RANK + 1))
    assert float(step(value, tf.constant(True))) == TOTAL
    assert float(step(value, tf.constant(False))) == SIZE


def test_a_function_may_be_called_twice_in_another() -> None:
    @tf.function
    def inner(value: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(value, op=hvd.Sum)

    @tf.function
    def outer(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return inner(value), inner(value * 10.0)

    for _ in range(10):
        first, second = outer(tf.constant(float(RANK + 1)))
        assert (float(first), float(second)) == (TOTAL, 10 * TOTAL)


def test_a_rank_may_trace_again() -> None:
    """The last batch of an epoch may have another size on one rank only."""

    @tf.function
    def step(batch: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(tf.reduce_sum(batch), op=hvd.Sum)

    assert float(step(tf.ones(3))) == 3 * SIZE
    assert float(step(tf.ones(2 if RANK == 0 else 3))) == 3 * SIZE - 1


def test_two_models_with_equal_names_train_by_turns() -> None:
    def make(size: int) -> tuple[tf.keras.Model, tf.function]:
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(size, name="same"), tf.keras.layers.Dense(1, name="last")]
        )
        optimizer = tf.keras.optimizers.SGD(0.1)

        @tf.function
        def step(batch: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(batch) ** 2)
            gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        model(tf.ones((1, 4)))
        hvd.broadcast_variables(model.variables, root_rank=0)
        return model, step

    models = [make(3), make(5)]
    draw = numpy.random.default_rng(RANK)
    for _ in range(5):
        for _, step in models:
            step(tf.constant(draw.normal(size=(8, 4)), tf.float32))
    for model, _ in models:
        weights = b"".join(each.tobytes() for each in model.get_weights())
        assert len(set(hora.allgather_object(weights))) == 1


def test_nothing_is_folded_dropped_or_merged() -> None:
    @tf.function
    def step() -> tuple[tf.Tensor, tf.Tensor]:
        hvd.allreduce(tf.constant(1.0))  # nobody wants the result
        return hvd.allreduce(tf.constant(2.0), op=hvd.Sum), hvd.allreduce(tf.constant(2.0), op=hvd.Sum)

    step()
    before = hvd.metrics()["tensors"]
    first, second = step()
    assert float(first) == float(second) == 2 * SIZE
    assert hvd.metrics()["tensors"] - before == 3


def test_what_is_compiled_as_a_whole_says_which_op_it_cannot_have() -> None:
    @tf.function(jit_compile=True)
    def step(value: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(value)

    with pytest.raises(tf.errors.OpError, match="HoraAllreduce"):
        step(tf.constant(1.0))


def test_functions_run_by_several_threads_at_once() -> None:
    results: dict[int, float] = {}

    def work(number: int) -> None:
        @tf.function
        def step(value: tf.Tensor) -> tf.Tensor:
            return hvd.allreduce(value, op=hvd.Sum, name=f"thread {number}")

        for _ in range(20):
            results[number] = float(step(tf.constant(float(number * (RANK + 1)))))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert results == {number: number * TOTAL for number in range(4)}


def test_computation_goes_on_while_a_rank_is_late() -> None:
    """The one thread of TensorFlow does not wait in a collective."""

    @tf.function
    def step(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        reduced = hvd.allreduce(value, op=hvd.Sum)
        with tf.control_dependencies([tf.identity(value)]):
            others = tf.py_function(lambda: time.monotonic(), [], tf.float64)
        finished = tf.py_function(lambda each: time.monotonic(), [reduced], tf.float64)
        return others, finished

    step(tf.constant(1.0))
    hora.barrier()
    if RANK == 0:
        time.sleep(0.5)
    others, finished = step(tf.constant(1.0))
    if RANK != 0:
        assert float(finished) - float(others) > 0.3
