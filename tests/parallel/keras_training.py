"""`hora.keras.DistributedOptimizer` on any backend: N ranks equal one process on the joined batch."""

from __future__ import annotations

import keras
import numpy
import pytest
from keras_ranks import (
    ALL,
    OWN,
    RANK,
    SIZE,
    MakeOptimizer,
    assert_close,
    assert_fit_like_one_process,
    assert_like_one_process,
    line,
    regress,
    same_everywhere,
    state_of,
)

import hora.keras as hvd

optimizers = keras.optimizers

COMMON: dict[str, MakeOptimizer] = {
    "sgd": lambda: optimizers.SGD(0.1),
    "momentum": lambda: optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: optimizers.Adam(0.01),
    "adamw": lambda: optimizers.AdamW(0.01),
}
OTHERS: dict[str, MakeOptimizer] = {
    name: getattr(optimizers, name)
    for name in (
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adamax",
        "Ftrl",
        "Lamb",
        "Lion",
        "Muon",
        "Nadam",
        "RMSprop",
        "ScheduleFreeAdamW",
    )
    if hasattr(optimizers, name)
}
OPTIONS: dict[str, MakeOptimizer] = {
    "clipnorm": lambda: optimizers.SGD(0.1, clipnorm=0.2),
    "global_clipnorm": lambda: optimizers.SGD(0.1, global_clipnorm=0.2),
    "clipvalue": lambda: optimizers.SGD(0.1, clipvalue=0.1),
    "weight_decay": lambda: optimizers.SGD(0.1, weight_decay=0.1),
    "ema": lambda: optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2),
    "schedule": lambda: optimizers.SGD(optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
    "scale": lambda: optimizers.SGD(0.1, loss_scale_factor=8.0),
    "accumulation": lambda: optimizers.Adam(0.01, gradient_accumulation_steps=2, clipnorm=0.2),
    "dynamic scale": lambda: optimizers.LossScaleOptimizer(
        optimizers.Adam(0.01), initial_scale=4.0, dynamic_growth_steps=2
    ),
    "several": lambda: optimizers.MultiOptimizer(
        optimizers.OptimizerMap(optimizers.SGD(0.1), {".*bias": optimizers.Adam(0.01)})
    ),
}


@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize("name", COMMON)
def test_training_equals_one_process(name: str, eagerly: bool) -> None:
    assert_fit_like_one_process(COMMON[name], run_eagerly=eagerly)


@pytest.mark.parametrize("name", OTHERS)
def test_every_optimizer_of_keras_works(name: str) -> None:
    assert_like_one_process(OTHERS[name])


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_optimizers_act_on_reduced_gradients(name: str) -> None:
    assert_like_one_process(OPTIONS[name])


@pytest.mark.parametrize("name", ["accumulation", "dynamic scale", "ema"])
def test_options_that_branch_work_in_fit(name: str) -> None:
    assert_fit_like_one_process(OPTIONS[name], epochs=4)


@pytest.mark.parametrize(
    "wrapping",
    [
        {"gradient_predivide_factor": 4.0},
        {"groups": 2},
        {"num_groups": 3},
        {"groups": 100},
        {"compression": hvd.Compression.none},
        {"sparse_as_dense": True},
    ],
    ids=str,
)
def test_options_do_not_change_the_result(wrapping: dict) -> None:
    assert_like_one_process(COMMON["momentum"], **wrapping)


def test_groups_may_be_lists_of_variables() -> None:
    variables = line()
    optimizer = hvd.DistributedOptimizer(COMMON["sgd"](), groups=[variables[1:]])
    assert_close(regress(optimizer, OWN, variables=variables), regress(COMMON["sgd"](), ALL))


def test_without_it_ranks_drift_apart() -> None:
    assert not same_everywhere(regress(COMMON["sgd"](), OWN))


def test_compressed_gradients_leave_ranks_equal() -> None:
    got = regress(hvd.DistributedOptimizer(COMMON["sgd"](), compression=hvd.Compression.fp16), OWN)
    expected = regress(COMMON["sgd"](), ALL)
    assert same_everywhere(got)
    assert_close(got, expected, within=1e-2)
    assert any((one != other).any() for one, other in zip(got, expected, strict=True))


def one_step(optimizer: object, gradient: float) -> float:
    """Return what a variable of 0 becomes by a step of SGD(1.0), negated: the gradient that was applied."""
    variable = keras.Variable(numpy.zeros(2))
    optimizer.apply([keras.ops.full((2,), gradient, dtype="float64")], [variable])
    values = keras.ops.convert_to_numpy(variable)
    assert values[0] == values[1]
    return -float(values[0])


MEAN, TOTAL = (SIZE + 1) / 2, SIZE * (SIZE + 1) / 2


def test_sum() -> None:
    assert one_step(hvd.DistributedOptimizer(optimizers.SGD(1.0), op=hvd.Sum), RANK + 1.0) == TOTAL


def test_process_sets() -> None:
    last = hvd.add_process_set([SIZE - 1])
    for members, expected in ((last, RANK + 1.0), (hvd.global_process_set, MEAN)):
        optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0), process_set=members)
        assert one_step(optimizer, RANK + 1.0) == expected
    hvd.remove_process_set(last)


@pytest.mark.parametrize("average", [False, True])
def test_several_passes_make_one_step(average: bool) -> None:
    optimizer = hvd.DistributedOptimizer(
        optimizers.SGD(1.0), backward_passes_per_step=2, average_aggregated_gradients=average
    )
    variable = keras.Variable(numpy.zeros(2))
    after = []
    for number in range(1, 5):
        optimizer.apply([keras.ops.full((2,), number * (RANK + 1.0), dtype="float64")], [variable])
        after.append(-float(keras.ops.convert_to_numpy(variable)[0]))
    share = 0.5 if average else 1.0
    assert after == [0.0, 3 * MEAN * share, 3 * MEAN * share, 10 * MEAN * share]
    assert int(optimizer.iterations) == 2


@pytest.mark.parametrize("scale", [False, True])
def test_local_layers_keep_their_gradients(scale: bool) -> None:
    layers = [keras.layers.Dense(1) for _ in range(3)]
    optimizer = hvd.PartialDistributedOptimizer(
        optimizers.SGD(1.0), local_layers=layers[1], scale_local_gradients=scale
    )
    for layer in layers:
        layer.build((None, 2))
        layer.kernel.assign(numpy.zeros((2, 1)))
    optimizer.register_local_var(layers[2].kernel)
    gradients = [keras.ops.full((2, 1), RANK + 1.0, dtype="float64") for _ in layers]
    optimizer.apply(gradients, [layer.kernel for layer in layers])
    got = [-keras.ops.convert_to_numpy(layer.kernel).flatten() for layer in layers]
    local = (RANK + 1) / (SIZE if scale else 1)
    assert [each.tolist() for each in got] == [[MEAN] * 2, [local] * 2, [local] * 2]


def test_gradients_that_are_none_are_left_out() -> None:
    variables = [keras.Variable(numpy.zeros(1)) for _ in range(3)]
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0))
    gradient = keras.ops.full((1,), RANK + 1.0, dtype="float64")
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply([gradient, None, gradient], variables)
    assert [float(each[0]) for each in variables] == [-MEAN, 0.0, -MEAN]


def test_variables_replaced_by_their_gradients_get_the_largest() -> None:
    variables = [keras.Variable(numpy.zeros(2)) for _ in range(2)]
    variables[1].overwrite_with_gradient = True
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0))
    gradients = [keras.ops.convert_to_tensor(numpy.array([RANK + 1.0, -RANK])) for _ in variables]
    optimizer.apply(gradients, variables)
    got = [keras.ops.convert_to_numpy(each).tolist() for each in variables]
    assert got == [[-MEAN, (SIZE - 1) / 2], [float(SIZE), 0.0]]


def test_wrapping_keeps_variables_and_class() -> None:
    optimizer, variables = optimizers.Adam(0.01), line()
    regress(optimizer, ALL, variables=variables)
    before, config = state_of(optimizer), keras.optimizers.serialize(optimizer)
    assert hvd.DistributedOptimizer(optimizer) is optimizer
    assert [each.tobytes() for each in state_of(optimizer)] == [each.tobytes() for each in before]
    assert isinstance(optimizer, optimizers.Adam)
    assert type(optimizer).__name__ == "Adam"
    assert keras.optimizers.serialize(optimizer) == config
    assert same_everywhere(regress(optimizer, OWN, variables=variables))


class NotKeras:
    """An optimizer of something else."""


@pytest.mark.parametrize(
    ("make", "arguments", "words"),
    [
        (lambda: hvd.DistributedOptimizer(optimizers.SGD()), {}, "already"),
        (
            lambda: optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(optimizers.SGD())),
            {},
            "already",
        ),
        (NotKeras, {}, r"an optimizer of Keras 3.*NotKeras"),
        (lambda: "sgd", {}, "an optimizer of Keras 3"),
        (optimizers.SGD, {"op": hvd.Adasum}, "op=Average or op=Sum"),
        (optimizers.SGD, {"op": hvd.Max}, "op=Average or op=Sum"),
        (optimizers.SGD, {"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "needs op=Average"),
        (optimizers.SGD, {"groups": -1}, "negative"),
        (optimizers.SGD, {"process_set": 3}, "ProcessSet"),
        (optimizers.SGD, {"backward_passes_per_step": 0}, "integer from 1"),
        (optimizers.SGD, {"backward_passes_per_step": 1.5}, "integer from 1"),
        (
            lambda: optimizers.SGD(gradient_accumulation_steps=2),
            {"backward_passes_per_step": 3},
            "contradicts the optimizer",
        ),
    ],
)
def test_wrong_arguments_are_refused(make: MakeOptimizer, arguments: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        hvd.DistributedOptimizer(make(), **arguments)


def test_wrong_numbers_of_gradients_are_refused() -> None:
    optimizer = hvd.DistributedOptimizer(optimizers.SGD())
    gradient = keras.ops.ones((1,))
    for variables in (None, [keras.Variable([1.0])]):
        with pytest.raises(ValueError, match="2 gradients are given for"):
            optimizer.apply([gradient, gradient], variables)
