"""What the tests of `hora.keras` share, on whichever backend Keras has."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from collections.abc import Callable
from typing import Any

import keras
import numpy

import hora
import hora.keras as hvd

RANK, SIZE = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
ROWS = 4  # of each rank

keras.config.set_floatx("float64")

DRAW = numpy.random.default_rng(3)
INPUTS = DRAW.normal(size=(ROWS * SIZE, 6))
TARGETS = DRAW.normal(size=(ROWS * SIZE, 1))
ALL = slice(None)
OWN = slice(ROWS * RANK, ROWS * (RANK + 1))

Optimizer = Any
MakeOptimizer = Callable[[], Optimizer]


def same_everywhere(arrays: list[numpy.ndarray]) -> bool:
    """Return whether all ranks have the same bits."""
    gathered = hora.allgather_object([array.tobytes() for array in arrays])
    return all(each == gathered[0] for each in gathered)


def state_of(optimizer: Optimizer) -> list[numpy.ndarray]:
    """Return the values of an optimizer's variables."""
    return [numpy.array(keras.ops.convert_to_numpy(variable)) for variable in optimizer.variables]


class EqualEpochs(keras.callbacks.Callback):
    """Counts the epochs after which all ranks had the same weights and optimizer variables."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self.count += same_everywhere([*self.model.get_weights(), *state_of(self.model.optimizer)])


def make_model() -> keras.Model:
    """Return a model with the same weights everywhere."""
    keras.utils.set_random_seed(5)
    layers = keras.layers
    return keras.Sequential([keras.Input((6,)), layers.Dense(5, activation="tanh"), layers.Dense(1)])


def fit(model: keras.Model, rows: slice, epochs: int = 3, **options: Any) -> list[numpy.ndarray]:
    """Train by `model.fit`, one batch an epoch; return the weights."""
    inputs, targets = INPUTS[rows], TARGETS[rows]
    model.fit(inputs, targets, batch_size=len(inputs), epochs=epochs, shuffle=False, verbose=0, **options)
    return list(model.get_weights())


def assert_fit_like_one_process(make: MakeOptimizer, epochs: int = 3, **options: Any) -> None:
    """Train one process on the joined batch, then all ranks on their own rows, and compare the weights."""
    alone = make_model()
    alone.compile(make(), "mse", jit_compile=False, **options)
    expected = fit(alone, ALL, epochs)

    together = make_model()
    together.compile(hvd.DistributedOptimizer(make()), "mse", jit_compile=False, **options)
    equal = EqualEpochs()
    got = fit(together, OWN, epochs, callbacks=[equal])

    assert_fits_close(got, expected)
    assert equal.count == epochs


def regress(
    optimizer: Optimizer, rows: slice, steps: int = 5, variables: list[Any] | None = None
) -> list[numpy.ndarray]:
    """Fit a line through the rows with gradients that NumPy computes; return the variables' values."""
    inputs, targets = INPUTS[rows], TARGETS[rows]
    weight, bias = variables or line()
    for _ in range(steps):
        error = inputs @ weight.numpy() + bias.numpy() - targets
        gradients = [2 * inputs.T @ error / len(error), 2 * error.mean(axis=0)]
        optimizer.apply([keras.ops.convert_to_tensor(each) for each in gradients], [weight, bias])
    return [weight.numpy(), bias.numpy(), *state_of(optimizer)]


def line() -> list[Any]:
    """Return the variables of :func:`regress`."""
    return [
        keras.Variable(numpy.linspace(-1, 1, 6)[:, None], name="weight"),
        keras.Variable(numpy.ones(1), name="bias"),
    ]


def assert_like_one_process(make: MakeOptimizer, **wrapping: Any) -> None:
    """Compare variables and the optimizer's state after some steps."""
    got = regress(hvd.DistributedOptimizer(make(), **wrapping), OWN)
    assert_close(got, regress(make(), ALL))
    assert same_everywhere(got)


def assert_close(got: list[numpy.ndarray], expected: list[numpy.ndarray], within: float = 1e-10) -> None:
    for one, other in zip(got, expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=within, atol=within)


def assert_fits_close(got: list[numpy.ndarray], expected: list[numpy.ndarray]) -> None:
    """Compare weights after `fit`, within which Keras on PyTorch rounds products of matrices to float32."""
    assert_close(got, expected, within=1e-7 if keras.backend.backend() == "torch" else 1e-10)
