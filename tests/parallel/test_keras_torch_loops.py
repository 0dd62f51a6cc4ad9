"""What `hora.keras` does on PyTorch alone: loops, sparse gradients, errors."""

from __future__ import annotations

import keras_on_torch
import numpy
import pytest
import torch
from keras_ranks import (
    ALL,
    INPUTS,
    OWN,
    RANK,
    SIZE,
    TARGETS,
    Optimizer,
    assert_fits_close,
    fit,
    make_model,
    same_everywhere,
)

import hora.keras as hvd
from hora.keras.reduction import Options, make_reduction

RANKS = (2,)
LAUNCH = "keras-torch"

keras = keras_on_torch.keras
MAKERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "adamw": lambda: keras.optimizers.AdamW(0.01),
}


def loop(optimizer: Optimizer, rows: slice) -> list:
    """Train with a loop of one's own."""
    model = make_model()
    inputs, targets = torch.from_numpy(INPUTS[rows]), torch.from_numpy(TARGETS[rows])
    for _ in range(4):
        model.zero_grad()
        torch.mean((model(inputs) - targets) ** 2).backward()
        gradients = [variable.value.grad for variable in model.trainable_variables]
        with torch.no_grad():
            optimizer.apply(gradients, model.trainable_variables)
    return list(model.get_weights())


@pytest.mark.parametrize("name", MAKERS)
def test_a_loop_equals_one_process(name: str) -> None:
    got = loop(hvd.DistributedOptimizer(MAKERS[name]()), OWN)
    assert_fits_close(got, loop(MAKERS[name](), ALL))
    assert same_everywhere(got)


@pytest.mark.parametrize("as_dense", [False, True])
def test_sparse_gradients_are_reduced(as_dense: bool) -> None:
    options = Options(hvd.Compression.none, as_dense, hvd.Average, 1.0, 0, None, hvd.global_process_set, True)
    gradient = torch.sparse_coo_tensor([[RANK, 3]], [[2.0], [1.0]], (4, 1), check_invariants=True)
    result = make_reduction(options).reduce([object()], [gradient], set())[0]
    assert result.is_sparse != as_dense
    expected = torch.zeros(4, 1)
    for rank in range(SIZE):
        expected[[rank, 3]] += torch.tensor([[2 / SIZE], [1 / SIZE]])
    assert torch.equal(result.to_dense(), expected)


def test_gradients_that_are_given_stay_as_they_are() -> None:
    gradient = torch.full((2,), RANK + 1.0, dtype=torch.float64)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    optimizer.apply([gradient], [keras.Variable(numpy.zeros(2))])
    assert gradient.tolist() == [RANK + 1.0] * 2


def test_errors_pass_through_fit() -> None:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1 + RANK)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
    with pytest.raises(hvd.HorovodInternalError, match="rank"):
        fit(model, OWN)
    assert float(hvd.allreduce(1.0)) == 1.0
