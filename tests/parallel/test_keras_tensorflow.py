"""What `hora.keras` does on TensorFlow alone: graphs, slices, XLA, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy
import pytest
import tensorflow as tf
from keras_ranks import (
    ALL,
    INPUTS,
    OWN,
    RANK,
    SIZE,
    TARGETS,
    assert_close,
    fit,
    make_model,
    same_everywhere,
)

import hora.keras as hvd
import hora.tensorflow
import hora.tensorflow.keras
from hora.tensorflow import gradients, python_kernels

RANKS = (2,)
LAUNCH = "keras"

MODES = {"eager": lambda function: function, "graph": lambda function: tf.function(function)}
in_both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)

MAKERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "adamw": lambda: keras.optimizers.AdamW(0.01),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=1.0),
    "accumulation": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2, global_clipnorm=0.1),
}


def loop(mode: object, model: keras.Model, optimizer: object, rows: slice, steps: int = 4) -> list:
    """Train with a loop that gives the gradients to `apply` or `apply_gradients`."""
    variables = model.trainable_variables
    optimizer.build(variables)

    def step(inputs: tf.Tensor, targets: tf.Tensor, pairs: bool) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs) - targets) ** 2)
        computed = tape.gradient(loss, variables)
        if pairs:
            optimizer.apply_gradients(zip(computed, variables, strict=True))
        else:
            optimizer.apply(computed)

    run = mode(step)
    for number in range(steps):
        run(tf.constant(INPUTS[rows]), tf.constant(TARGETS[rows]), number % 2 == 0)
    return list(model.get_weights())


@in_both_modes
@pytest.mark.parametrize("name", MAKERS)
def test_a_loop_equals_one_process(mode: object, name: str) -> None:
    expected = loop(mode, make_model(), MAKERS[name](), ALL)
    got = loop(mode, make_model(), hvd.DistributedOptimizer(MAKERS[name]()), OWN)
    assert_close(got, expected)
    assert same_everywhere(got)


def test_kernels_in_python_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "kernels", python_kernels.PythonKernels)
    expected = loop(MODES["eager"], make_model(), MAKERS["scaled"](), ALL)
    got = loop(MODES["graph"], make_model(), hvd.DistributedOptimizer(MAKERS["scaled"]()), OWN)
    assert_close(got, expected)


@in_both_modes
def test_ranks_skip_a_step_together(mode: object) -> None:
    inner = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=4.0)
    variable = keras.Variable(numpy.zeros(1))
    optimizer.build([variable])
    step = mode(lambda gradient: optimizer.apply([gradient]))
    for gradient in (numpy.inf if RANK == 0 else 4.0, 2.0 * (RANK + 1)):
        step(tf.constant([gradient], "float64"))
    assert float(variable[0]) == -(SIZE + 1) / 2
    assert float(optimizer.dynamic_scale) == 2.0


@in_both_modes
@pytest.mark.parametrize("as_dense", [False, True])
@pytest.mark.parametrize("steps", [None, 2])
def test_slices_of_an_embedding_are_reduced(mode: object, as_dense: bool, steps: int | None) -> None:
    layer = keras.layers.Embedding(4, 2, embeddings_initializer="zeros")
    layer.build()
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(1.0, gradient_accumulation_steps=steps), sparse_as_dense=as_dense
    )
    optimizer.build(layer.trainable_variables)

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(tf.constant([RANK, RANK, 3])))
        computed = tape.gradient(loss, layer.trainable_variables)
        assert isinstance(computed[0], tf.IndexedSlices)
        optimizer.apply(computed)

    run = mode(step)
    for _ in range(steps or 1):
        run()
    expected = numpy.zeros((4, 2))
    for rank in range(SIZE):
        expected[[rank, 3]] -= [[2 / SIZE], [1 / SIZE]]
    numpy.testing.assert_allclose(layer.get_weights()[0], expected)


@pytest.mark.parametrize(
    "make",
    [lambda: keras.optimizers.Adam(0.1), lambda: keras.optimizers.SGD(1.0, global_clipnorm=0.5)],
    ids=["adam", "clipped"],
)
def test_slices_do_to_an_optimizer_what_those_of_one_process_do(make: Any) -> None:
    tokens = [[1, 1, 2], [2, 0, 2]]

    def train(optimizer: Any, rows: list[int], share: float) -> numpy.ndarray:
        layer = keras.layers.Embedding(4, 2, embeddings_initializer="zeros")
        layer.build()
        optimizer.build(layer.trainable_variables)
        for step in range(3):
            with tf.GradientTape() as tape:
                loss = share * tf.reduce_sum((layer(tf.constant(rows)) - float(step + 1)) ** 2)
            optimizer.apply(tape.gradient(loss, layer.trainable_variables))
        return layer.get_weights()[0]

    expected = train(make(), tokens[0] + tokens[1], 1 / SIZE)
    got = train(hvd.DistributedOptimizer(make()), tokens[RANK], 1.0)
    numpy.testing.assert_allclose(got, expected, rtol=1e-10)


def test_two_models_in_turn() -> None:
    models = [make_model() for _ in range(2)]
    optimizers = [hvd.DistributedOptimizer(MAKERS["adam"]()) for _ in models]
    for _ in range(3):
        for model, optimizer in zip(models, optimizers, strict=True):
            loop(MODES["graph"], model, optimizer, OWN, steps=1)
    assert same_everywhere([weight for model in models for weight in model.get_weights()])
    assert_close(models[0].get_weights(), models[1].get_weights())


@pytest.mark.parametrize("how", ["compiled", "compiled again", "wrapped later", "loaded"])
def test_models_are_trained_without_xla(how: str, tmp_path: Path) -> None:
    model, optimizer = make_model(), keras.optimizers.SGD(0.1)
    if how != "compiled":
        model.compile(optimizer, "mse", jit_compile=True)
        assert model.jit_compile
    model.save(tmp_path / "model.keras")
    with pytest.warns(RuntimeWarning, match="jit_compile=False"):
        if how == "loaded":
            model = hvd.load_model(tmp_path / "model.keras")
        else:
            hvd.DistributedOptimizer(optimizer)
        if how.startswith("compiled"):
            model.compile(optimizer, "mse", jit_compile=True)
        assert same_everywhere(fit(model, OWN, epochs=1))
    assert not model.jit_compile


@pytest.mark.parametrize("eagerly", [False, True])
def test_errors_pass_through_fit(eagerly: bool) -> None:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1 + RANK)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer, "mse", jit_compile=False, run_eagerly=eagerly)
    with pytest.raises(tf.errors.FailedPreconditionError, match="rank"):
        fit(model, OWN)
    assert float(hvd.allreduce(1.0)) == 1.0


def test_the_address_for_tensorflow_has_the_same() -> None:
    for name in hvd.__all__:
        assert getattr(hora.tensorflow.keras, name) is getattr(hvd, name)
    optimizer = hora.tensorflow.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum)
    variable = keras.Variable(numpy.zeros(1))
    optimizer.apply([tf.constant([RANK + 1.0], "float64")], [variable])
    assert float(variable[0]) == -SIZE * (SIZE + 1) / 2


def test_optimizers_of_tensorflow_1_are_refused() -> None:
    with pytest.raises(ValueError, match="an optimizer of Keras 3"):
        hora.tensorflow.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
