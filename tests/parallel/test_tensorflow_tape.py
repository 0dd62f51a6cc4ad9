"""`DistributedGradientTape`: N ranks equal one process on the joined batch."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf
from tensorflow_ranks import RANK, SIZE, Mode, in_both_modes, same_everywhere

import hora
import hora.tensorflow as hvd

RANKS = (2,)
LAUNCH = "tensorflow"

DTYPE = "float64"
DRAW = numpy.random.default_rng(3)
INPUTS = DRAW.normal(size=(4 * SIZE, 6))
TARGETS = DRAW.normal(size=(4 * SIZE, 1))


def make_model() -> tf.keras.Model:
    tf.keras.utils.set_random_seed(5)
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((6,), dtype=DTYPE),
            layers.Dense(5, activation="tanh", dtype=DTYPE),
            layers.Dense(1, dtype=DTYPE),
        ]
    )


def train(
    mode: Mode, optimizer: tf.keras.optimizers.Optimizer, rows: slice, wrap: bool, **options: object
) -> list:
    model = make_model()

    def step(inputs: tf.Tensor, targets: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs) - targets) ** 2)
        if wrap:
            tape = hvd.DistributedGradientTape(tape, **options)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    optimizer.build(model.trainable_variables)
    run = mode(step)
    for _ in range(5):
        run(tf.constant(INPUTS[rows]), tf.constant(TARGETS[rows]))
    return model.get_weights()


OPTIMIZERS = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.1),
    "momentum": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: tf.keras.optimizers.Adam(0.01),
    "adamw": lambda: tf.keras.optimizers.AdamW(0.01),
}
OWN = slice(4 * RANK, 4 * RANK + 4)


@in_both_modes
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_equals_one_process_on_the_joined_batch(mode: Mode, name: str) -> None:
    expected = train(mode, OPTIMIZERS[name](), slice(None), False)
    got = train(mode, OPTIMIZERS[name](), OWN, True)
    alone = train(mode, OPTIMIZERS[name](), OWN, False)
    for one, other in zip(got, expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
        assert same_everywhere(one)
    assert any(abs(one - other).max() > 1e-6 for one, other in zip(got, alone, strict=True))


@in_both_modes
@pytest.mark.parametrize(
    "options",
    [
        {"gradient_predivide_factor": 4.0},
        {"groups": 2},
        {"num_groups": 3},
        {"groups": 100},
        {"compression": hvd.Compression.none},
    ],
)
def test_options_do_not_change_the_result(mode: Mode, options: dict) -> None:
    expected = train(mode, OPTIMIZERS["sgd"](), slice(None), False)
    got = train(mode, OPTIMIZERS["sgd"](), OWN, True, **options)
    for one, other in zip(got, expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def loss_of(weights: list[tf.Variable]) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(each) * (RANK + 1.0) for each in weights])


@in_both_modes
def test_groups_may_be_lists_of_variables(mode: Mode) -> None:
    weights = [tf.Variable(tf.ones(length)) for length in (1, 2, 3, 4)]

    def compute() -> list[tf.Tensor]:
        with hvd.DistributedGradientTape(tf.GradientTape(), groups=[weights[::2]]) as tape:
            loss = loss_of(weights)
        return tape.gradient(loss, weights)

    for length, gradient in enumerate(mode(compute)(), 1):
        assert gradient.numpy().tolist() == [(SIZE + 1) / 2] * length


@in_both_modes
def test_gradients_that_are_none_stay_so_and_structures_are_kept(mode: Mode) -> None:
    used, unused = tf.Variable(2.0), tf.Variable(1.0)

    def compute() -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = used * (RANK + 1.0)
        return hvd.DistributedGradientTape(tape).gradient(loss, {"b": used, "a": unused})

    gradients = mode(compute)()
    assert gradients["a"] is None
    assert float(gradients["b"]) == (SIZE + 1) / 2


@in_both_modes
@pytest.mark.parametrize("as_dense", [False, True])
def test_slices_of_an_embedding_are_reduced(mode: Mode, as_dense: bool) -> None:
    table = tf.Variable(tf.zeros((4, 2)))

    def compute() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [RANK, RANK, 3]))
        gradient = hvd.DistributedGradientTape(tape, sparse_as_dense=as_dense).gradient(loss, table)
        assert isinstance(gradient, tf.IndexedSlices) != as_dense
        return tf.convert_to_tensor(gradient)

    expected = numpy.zeros((4, 2))
    for rank in range(SIZE):
        expected[[rank, 3]] += [[2 / SIZE], [1 / SIZE]]
    numpy.testing.assert_allclose(mode(compute)().numpy(), expected)


@in_both_modes
@pytest.mark.parametrize("scale", [False, True])
def test_local_sources_keep_their_gradients(mode: Mode, scale: bool) -> None:
    layers = [tf.keras.layers.Dense(1, kernel_initializer="ones") for _ in range(2)]
    for layer in layers:
        layer.build((None, 2))

    def compute() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layers[0](tf.ones((1, 2))) + layers[1](tf.ones((1, 2)))) * (RANK + 1.0)
        tape = hvd.PartialDistributedGradientTape(tape, local_layers=layers[1], scale_local_gradients=scale)
        return tape.gradient(loss, [layer.kernel for layer in layers])

    shared, local = mode(compute)()
    assert shared.numpy().flatten().tolist() == [(SIZE + 1) / 2] * 2
    assert local.numpy().flatten().tolist() == [(RANK + 1) / (SIZE if scale else 1)] * 2


def test_a_tape_is_wrapped_once() -> None:
    tape = hvd.DistributedGradientTape(tf.GradientTape())
    assert isinstance(tape, tf.GradientTape)
    with pytest.raises(ValueError, match="already"):
        hvd.DistributedGradientTape(tape)
    with pytest.raises(ValueError, match=r"expected a tf\.GradientTape"):
        hvd.DistributedGradientTape(tf.constant(1))
    weight = tf.Variable(1.0)
    with pytest.raises(ValueError, match="twice"):
        hvd.DistributedGradientTape(tf.GradientTape(), groups=[[weight], [weight]])
    with pytest.raises(ValueError, match="Average, op=Sum or op=Adasum"):
        hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Max)


def test_sum_and_process_sets() -> None:
    last = hvd.add_process_set([SIZE - 1])
    weight = tf.Variable(1.0)
    for options, expected in (
        ({"op": hvd.Sum}, SIZE * (SIZE + 1) / 2),
        ({"process_set": last}, RANK + 1.0),
    ):
        with tf.GradientTape() as tape:
            loss = weight * (RANK + 1.0)
        assert float(hvd.DistributedGradientTape(tape, **options).gradient(loss, weight)) == expected
    hvd.remove_process_set(last)
    assert hora.size() == SIZE
