"""SyncBatchNormalization on shares of a batch equals BatchNormalization on the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import tensorflow as tf
from tensorflow_ranks import RANK, SIZE, Mode, in_both_modes, same_everywhere

import hora.tensorflow as hvd

RANKS = (2, 3)
LAUNCH = "tensorflow"

CHANNELS = 4
ROWS = {
    "even": [3] * SIZE,
    "uneven": [rank + 1 for rank in range(SIZE)],
    "an empty one": [0, *[4] * (SIZE - 1)],
}
Layer = tf.keras.layers.BatchNormalization


def draw(rows: list[int], shape: tuple[int, ...], seed: int) -> numpy.ndarray:
    return 3 * numpy.random.default_rng(seed).normal(size=(sum(rows), *shape)) + 10


def share(whole: numpy.ndarray, rows: list[int]) -> tf.Tensor:
    first = sum(rows[:RANK])
    return tf.constant(whole[first : first + rows[RANK]])


def step_of(layer: Layer, mode: Mode) -> Callable[..., tuple[Any, ...]]:
    """Return a training step: inputs and weights of outputs to outputs, and gradients of inputs and layer."""

    def step(inputs: tf.Tensor, weights: tf.Tensor) -> tuple[Any, ...]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, training=True)
            loss = tf.reduce_sum(outputs * weights)
        of_inputs, *of_layer = tape.gradient(loss, [inputs, *layer.trainable_variables])
        return outputs, of_inputs, of_layer

    return mode(step)


@in_both_modes
@pytest.mark.parametrize("sizes", ROWS)
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((CHANNELS,), {}),
        ((3, 2, CHANNELS), {}),
        ((CHANNELS, 3, 2), {"axis": 1, "momentum": 0.5, "epsilon": 0.1}),
        ((5, CHANNELS), {"center": False, "scale": False}),
        ((2, CHANNELS), {"renorm": True}),
    ],
    ids=str,
)
def test_equals_one_process_on_the_joined_batch(
    mode: Mode, sizes: str, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    rows = ROWS[sizes]
    layer = hvd.SyncBatchNormalization(dtype="float64", **options)
    expected = Layer(dtype="float64", **options)
    for each in (layer, expected):
        each.build((None, *shape))
    own, whole = step_of(layer, mode), step_of(expected, lambda function: function)
    for number in range(2):
        inputs, weights = draw(rows, shape, number), draw(rows, shape, 100 + number)
        outputs, of_inputs, of_layer = own(share(inputs, rows), share(weights, rows))
        reference = whole(tf.constant(inputs), tf.constant(weights))
        for got, joined in ((outputs, reference[0]), (of_inputs, reference[1])):
            numpy.testing.assert_allclose(got, share(joined.numpy(), rows), rtol=0, atol=1e-10)
        for got, joined in zip(of_layer, reference[2], strict=True):
            numpy.testing.assert_allclose(hvd.allreduce(got, op=hvd.Sum), joined, rtol=0, atol=1e-9)
    for got, joined in zip(layer.get_weights(), expected.get_weights(), strict=True):
        numpy.testing.assert_allclose(got, joined, rtol=0, atol=1e-10)
    assert all(same_everywhere(each) for each in layer.get_weights())


@in_both_modes
def test_masked_values_do_not_count(mode: Mode) -> None:
    values, mask = draw([4] * SIZE, (3, CHANNELS), 5), draw([4] * SIZE, (3,), 6) > 9
    layers = hvd.SyncBatchNormalization(dtype="float64"), Layer(dtype="float64")
    run = mode(lambda inputs, mask: layers[0](inputs, training=True, mask=mask))
    layers[0].build(values.shape)
    got = run(share(values, [4] * SIZE), share(mask, [4] * SIZE))
    joined = layers[1](values, training=True, mask=mask)
    # Keras adds 1e-7 to the number of values that count.
    numpy.testing.assert_allclose(got, share(joined.numpy(), [4] * SIZE), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "mixed_float16"])
def test_lower_precision(dtype: str) -> None:
    values = draw([3] * SIZE, (8, CHANNELS), 7)
    layer = hvd.SyncBatchNormalization(dtype=dtype)
    got = layer(tf.cast(share(values, [3] * SIZE), layer.compute_dtype), training=True)
    joined = Layer(dtype="float64")(values, training=True)
    assert got.dtype == layer.compute_dtype
    got = tf.cast(got, "float64")
    numpy.testing.assert_allclose(got, share(joined.numpy(), [3] * SIZE), rtol=0, atol=0.1)


def test_evaluation_is_local() -> None:
    layer = hvd.SyncBatchNormalization()
    if RANK == 0:
        layer(tf.ones((2, CHANNELS)), training=False)


def model_with(layer: Layer) -> tf.keras.Model:
    tf.keras.utils.set_random_seed(1)
    dense = [tf.keras.layers.Dense(each, activation="tanh", dtype="float64") for each in (CHANNELS, 1)]
    model = tf.keras.Sequential([tf.keras.layers.Input((6,), dtype="float64"), dense[0], layer, dense[1]])
    return model


@in_both_modes
def test_a_model_trains_like_one_process(mode: Mode) -> None:
    rows = [4] * SIZE
    models = [model_with(each(dtype="float64")) for each in (hvd.SyncBatchNormalization, Layer)]

    def train(model: tf.keras.Model, distributed: bool, inputs: tf.Tensor) -> None:
        optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build(model.trainable_variables)

        def step(inputs: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(inputs, training=True) - 1) ** 2)
            if distributed:
                tape = hvd.DistributedGradientTape(tape)
            optimizer.apply(tape.gradient(loss, model.trainable_variables))

        run = mode(step)
        for _ in range(3):
            run(inputs)

    inputs = draw(rows, (6,), 8)
    train(models[0], True, share(inputs, rows))
    train(models[1], False, tf.constant(inputs))
    for got, joined in zip(*(model.get_weights() for model in models), strict=True):
        numpy.testing.assert_allclose(got, joined, rtol=0, atol=1e-10)
        assert same_everywhere(got)


def test_a_saved_layer_is_the_same_kind(tmp_path: Any) -> None:
    model = model_with(hvd.SyncBatchNormalization(momentum=0.7, dtype="float64"))
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.layers[1]) is hvd.SyncBatchNormalization
    assert loaded.layers[1].momentum == 0.7


def test_it_is_not_fused() -> None:
    with pytest.raises(ValueError, match="fused"):
        hvd.SyncBatchNormalization(fused=True)
