"""Loss scaling on any backend: all ranks skip a step together."""

from __future__ import annotations

import math

import keras
import numpy
import pytest
from keras_ranks import RANK, SIZE, EqualEpochs, Optimizer

import hora.keras as hvd

optimizers = keras.optimizers
MEAN = (SIZE + 1) / 2


def inside() -> Optimizer:
    return optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(optimizers.SGD(1.0)), initial_scale=4.0)


def outside() -> Optimizer:
    return hvd.DistributedOptimizer(optimizers.LossScaleOptimizer(optimizers.SGD(1.0), initial_scale=4.0))


@pytest.mark.parametrize("make", [inside, outside])
def test_ranks_skip_a_step_together(make: object) -> None:
    optimizer, variable = make(), keras.Variable(numpy.zeros(1))
    last = RANK == SIZE - 1
    for gradient in (numpy.inf if last else 4.0, 2.0 * (RANK + 1), numpy.nan if last else 1.0, 1.0):
        optimizer.apply([keras.ops.full((1,), gradient, dtype="float64")], [variable])
    # Scales of the four steps: 4, 2, 2, 1; the first and the third are skipped.
    assert float(variable[0]) == -MEAN - 1.0
    assert float(optimizer.dynamic_scale) == 1.0
    assert int(optimizer.iterations) == 2


def test_a_sum_that_overflows_is_skipped_by_all() -> None:
    optimizer = hvd.DistributedOptimizer(
        optimizers.LossScaleOptimizer(optimizers.SGD(1.0), initial_scale=2.0), op=hvd.Sum
    )
    variable = keras.Variable(numpy.zeros(1))
    optimizer.apply([keras.ops.full((1,), 1e308, dtype="float64")], [variable])
    assert (float(variable[0]), float(optimizer.dynamic_scale)) == (0.0, 1.0)


def test_local_variables_inside_a_scaled_optimizer() -> None:
    optimizer = outside()
    variable = keras.Variable(numpy.zeros(1))
    optimizer.register_local_var(variable)
    optimizer.apply([keras.ops.full((1,), 4.0 * (RANK + 1), dtype="float64")], [variable])
    assert float(variable[0]) == -(RANK + 1) / SIZE


def test_optimizers_that_are_wrapped_too_deep_are_refused() -> None:
    several = optimizers.MultiOptimizer(
        optimizers.OptimizerMap(hvd.DistributedOptimizer(optimizers.SGD(1.0)))
    )
    scaled = optimizers.LossScaleOptimizer(several)
    with pytest.raises(ValueError, match="give the outer one"):
        scaled.apply([keras.ops.ones((1,))], [keras.Variable(numpy.zeros(1))])


@pytest.mark.parametrize("passes", [1, 2])
def test_models_of_mixed_precision_train_together(passes: int) -> None:
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("mixed_float16")
    try:
        keras.utils.set_random_seed(5)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        optimizer = hvd.DistributedOptimizer(optimizers.SGD(0.01), backward_passes_per_step=passes)
        model.compile(optimizer, "mse", jit_compile=False)
        assert isinstance(model.optimizer, optimizers.LossScaleOptimizer)
        inputs = numpy.ones((4, 2), "float32") * (RANK + 1)
        inputs[0] = 6e4 if RANK == SIZE - 1 else 1.0  # the first step overflows on the last rank
        equal = EqualEpochs()
        before = model.get_weights()
        targets = numpy.ones((4, 1))
        model.fit(inputs, targets, batch_size=1, epochs=3, shuffle=False, verbose=0, callbacks=[equal])
        assert equal.count == 3
        assert any((one != other).any() for one, other in zip(model.get_weights(), before, strict=True))
        skipped = 15 - round(math.log2(float(model.optimizer.dynamic_scale)))
        assert 3 <= skipped < 12  # at least the first step of each epoch
        assert int(optimizer.iterations) == (12 - skipped) // passes
    finally:
        keras.config.set_dtype_policy("float32")
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
