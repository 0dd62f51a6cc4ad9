"""The tests of the callbacks, on whichever backend Keras has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy
import pytest
from keras_ranks import RANK, SIZE

import hora
import hora.keras as hvd

BATCHES = 4
DATA = numpy.random.default_rng(RANK).normal(size=(2 * BATCHES, 3))


def make_model(optimizer: Any, with_input: bool = True) -> keras.Model:
    """Return a compiled model whose weights differ between ranks; not as a graph, which takes its time."""
    keras.utils.set_random_seed(RANK)
    inputs = [keras.layers.Input((3,), dtype="float64")] if with_input else []
    layers = [keras.layers.Dense(units, activation="tanh", dtype="float64") for units in (4, 1)]
    model = keras.Sequential([*inputs, *layers])
    model.compile(optimizer, "mse", metrics=["mae"], run_eagerly=True)
    return model


def fit(model: keras.Model, *callbacks: Any, epochs: int = 1, **options: Any) -> dict[str, list[float]]:
    batches = {"batch_size": 2, "epochs": epochs, "verbose": 0, "callbacks": list(callbacks), **options}
    return model.fit(DATA, DATA[:, 0], **batches).history


def state(model: keras.Model) -> list[numpy.ndarray]:
    return [keras.ops.convert_to_numpy(each) for each in [*model.weights, *model.optimizer.variables]]


def same_everywhere(values: Any) -> bool:
    return all(each == hora.broadcast_object(values) for each in hora.allgather_object(values))


def bits(arrays: list[numpy.ndarray]) -> list[bytes]:
    return [each.tobytes() for each in arrays]


class Recorder(keras.callbacks.Callback):
    """Notes the state and the rate before batches, and the logs at the end of epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[list[bytes]] = []
        self.rates: list[float] = []
        self.logs: list[dict[str, float]] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.states.append(bits(state(self.model)))
        self.rates.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.logs.append(dict(logs))


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_the_first_step_begins_with_the_roots_state(name: str) -> None:
    root = SIZE - 1
    model = make_model(getattr(keras.optimizers, name)(0.1 + RANK))
    if root == RANK:  # as if it had loaded a checkpoint
        fit(model)
    else:
        model.optimizer.build(model.trainable_variables)
    expected = hora.broadcast_object(bits(state(model)), root_rank=root)
    assert not same_everywhere(bits(state(model)))
    recorder = Recorder()
    fit(model, hvd.callbacks.BroadcastGlobalVariablesCallback(root), recorder)
    assert recorder.states[0] == expected


def test_local_variables_stay_each_ranks_own() -> None:
    model = make_model(keras.optimizers.SGD(0.0))
    first, last = model.layers[0].kernel, model.layers[1].kernel
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=[first])
    callback.register_local_var(last)
    before = state(model)
    fit(model, callback)
    for number, (one, other) in enumerate(zip(state(model)[:4], before, strict=False)):
        is_local = number in (0, 2)
        assert same_everywhere(one.tobytes()) != is_local
        assert not is_local or one.tobytes() == other.tobytes()


def test_an_optimizer_keeps_what_it_has_for_local_variables() -> None:
    model = make_model(keras.optimizers.SGD(0.1, momentum=0.9))
    local = model.layers[1]
    hvd.PartialDistributedOptimizer(model.optimizer, local_layers=local)
    model.optimizer.build(model.trainable_variables)
    for each in model.optimizer.momentums:
        each.assign(keras.ops.full(each.shape, RANK, "float64"))
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(SIZE - 1)
    callback.set_model(model)
    callback.on_train_begin()
    for variable, slot in zip(model.trainable_variables, model.optimizer.momentums, strict=True):
        is_local = any(variable is each for each in local.trainable_variables)
        assert keras.ops.max(slot) == (RANK if is_local else SIZE - 1)
    weights = [[keras.ops.convert_to_numpy(layer.kernel).tobytes()] for layer in model.layers]
    assert [same_everywhere(each) for each in weights] == [True, False]


@pytest.mark.parametrize("epochs_of_root", [0, 1])
@pytest.mark.parametrize("batches", [1, BATCHES])
def test_a_model_without_input_is_the_roots_too(epochs_of_root: int, batches: int) -> None:
    model = make_model(hvd.DistributedOptimizer(keras.optimizers.Adam(0.1)), with_input=False)
    if RANK == 0 and epochs_of_root:
        model.build((None, 3))
    fit(model, hvd.callbacks.BroadcastGlobalVariablesCallback(0), batch_size=len(DATA) // batches)
    assert same_everywhere(bits(state(model)))


def test_models_that_differ_fail_on_all_ranks() -> None:
    model = make_model(keras.optimizers.SGD(0.1))
    if RANK == 0:
        model.add(keras.layers.Dense(1))
    with pytest.raises(Exception, match="rank"):
        fit(model, hvd.callbacks.BroadcastGlobalVariablesCallback(0))


def test_later_callbacks_see_averages_of_all_metrics() -> None:
    own, averaged = Recorder(), Recorder()
    model = make_model(keras.optimizers.SGD(0.1))
    history = fit(
        *(model, own, hvd.callbacks.MetricAverageCallback(), averaged),
        epochs=2,
        validation_data=(DATA + RANK, DATA[:, 1]),
    )
    assert same_everywhere(averaged.logs)
    assert not same_everywhere(own.logs)
    everyone = hora.allgather_object(own.logs)
    for epoch, logs in enumerate(averaged.logs):
        assert set(logs) >= {"loss", "mae", "val_loss", "val_mae"}
        for name, value in logs.items():
            assert value == pytest.approx(numpy.mean([each[epoch][name] for each in everyone]), rel=1e-12)
            assert history[name][epoch] == value


def test_ranks_with_other_metrics_are_told_so() -> None:
    model = make_model(keras.optimizers.SGD(0.1))
    validation = {"validation_data": (DATA, DATA[:, 1])} if RANK == 0 else {}
    with pytest.raises(ValueError, match=r"rank 1 has the metrics .*, rank 0 .*val_loss"):
        fit(model, hvd.callbacks.MetricAverageCallback(), **validation)


def test_warm_up_goes_from_the_rate_of_one_process_to_that_of_all(capsys: Any) -> None:
    recorder, base, epochs = Recorder(), 0.1, 2
    warmup = hvd.callbacks.LearningRateWarmupCallback(base * SIZE, warmup_epochs=epochs, verbose=1)
    model = make_model(keras.optimizers.SGD(base, momentum=0.9))
    history = fit(model, warmup, recorder, epochs=epochs + 1)
    steps = epochs * BATCHES
    expected = [base * (1 + (SIZE - 1) * (step + 1) / steps) for step in range(steps)]
    assert recorder.rates == pytest.approx([*expected, *[base * SIZE] * BATCHES], rel=1e-6)
    assert history["lr"] == pytest.approx([expected[BATCHES - 1], base * SIZE, base * SIZE], rel=1e-6)
    assert capsys.readouterr().out.count("has reached 0.2 at the end of its warm-up") == 1


@pytest.mark.parametrize(
    ("multiplier", "options", "expected"),
    [
        (lambda epoch: 0.5**epoch, {}, [1, 1, 0.5, 0.5, 0.25, 0.25]),
        (lambda epoch: 1 + epoch, {"staircase": False}, [1, 1.5, 2, 2.5, 3, 3.5]),
        (lambda epoch: 1 + epoch, {"staircase": False, "steps_per_epoch": 4}, [1, 1.25, 2, 2.25, 3, 3.25]),
        (0.1, {"start_epoch": 1, "end_epoch": 2}, [7, 7, 0.1, 0.1, 0.1, 0.1]),
        (0.1, {"start_epoch": 2, "staircase": False}, [7, 7, 7, 7, 0.1, 0.1]),
    ],
)
def test_schedules(multiplier: Any, options: dict[str, Any], expected: list[float]) -> None:
    recorder = Recorder()
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.01, multiplier, **options)
    fit(make_model(keras.optimizers.SGD(0.07)), schedule, recorder, epochs=3, batch_size=BATCHES)
    assert recorder.rates == pytest.approx([0.01 * each for each in expected], rel=1e-6)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("corrects", [False, True])
def test_momentum_is_corrected_when_the_rate_changes(corrects: bool, wrapped: bool) -> None:
    optimizer = keras.optimizers.SGD(0.5, momentum=0.9)
    model = keras.Sequential(
        [keras.layers.Input((1,), dtype="float64"), keras.layers.Dense(1, use_bias=False, dtype="float64")]
    )
    model.compile(hvd.DistributedOptimizer(optimizer) if wrapped else optimizer, "mse", jit_compile=False)
    model.set_weights([numpy.array([[2.0]])])
    rates = [0.25, 0.125, 0.0625, 0.25]
    schedule = hvd.callbacks.LearningRateScheduleCallback(
        1.0, lambda epoch: rates[int(epoch)], momentum_correction=corrects
    )
    one = numpy.ones((1, 1))
    model.fit(one, 0 * one, epochs=len(rates), verbose=0, callbacks=[schedule])
    weight, velocity, before = 2.0, 0.0, 0.5
    for rate in rates:
        momentum = 0.9 * (rate / before if corrects else 1)
        velocity = momentum * velocity - rate * 2 * weight
        weight, before = weight + velocity, rate
    assert model.get_weights()[0].item() == pytest.approx(weight, rel=1e-6)


def test_what_is_overwritten_has_no_momentum_to_correct() -> None:
    model = make_model(keras.optimizers.SGD(0.1, momentum=0.9))
    model.layers[0].bias.overwrite_with_gradient = True
    recorder = Recorder()
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.5**epoch)
    fit(model, schedule, recorder, epochs=2)
    assert recorder.rates[-1] == pytest.approx(0.05)


def test_a_warm_up_counts_the_batches_of_each_fit() -> None:
    warmup, recorder = hvd.callbacks.LearningRateWarmupCallback(0.1 * SIZE, 1), Recorder()
    model = make_model(keras.optimizers.SGD(0.1))
    for batches in (BATCHES, 2):
        fit(model, warmup, recorder, batch_size=len(DATA) // batches)
        assert recorder.rates[-1] == pytest.approx(0.1 * SIZE)
        assert recorder.rates[-batches] == pytest.approx(0.1 * (1 + (SIZE - 1) / batches))


def test_adam_has_no_momentum_to_correct() -> None:
    ends = []
    for corrects in (False, True):
        keras.utils.set_random_seed(1)
        model = make_model(keras.optimizers.Adam(0.1))
        schedule = hvd.callbacks.LearningRateScheduleCallback(
            0.1, lambda epoch: 0.5**epoch, momentum_correction=corrects
        )
        fit(model, schedule, epochs=2, shuffle=False)
        ends.append(bits(state(model)))
    assert ends[0] == ends[1]


def endless() -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
    while True:
        yield DATA, DATA[:, 0]


def test_what_cannot_be_scheduled_is_refused() -> None:
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    with pytest.raises(ValueError, match="schedule of its own"):
        fit(make_model(keras.optimizers.SGD(decay)), hvd.callbacks.LearningRateWarmupCallback(0.1))
    with pytest.raises(ValueError, match="give it steps_per_epoch"):
        make_model(keras.optimizers.SGD(0.1)).fit(
            endless(), verbose=0, callbacks=[hvd.callbacks.LearningRateWarmupCallback(0.1)]
        )
    recorder = Recorder()
    make_model(keras.optimizers.SGD(0.1)).fit(
        *(endless(), None),
        steps_per_epoch=2,
        verbose=0,
        callbacks=[hvd.callbacks.LearningRateWarmupCallback(0.1, 1), recorder],
    )
    assert recorder.rates[-1] == pytest.approx(0.1)


@pytest.mark.parametrize("weights_only", [False, True])
def test_the_best_model_is_written_on_rank_0(tmp_path: Path, weights_only: bool) -> None:
    folder = Path(hora.broadcast_object(str(tmp_path)))
    ending = "weights.h5" if weights_only else "keras"
    checkpoint = hvd.callbacks.BestModelCheckpoint(monitor="loss", save_weights_only=weights_only)
    model = make_model(keras.optimizers.SGD(0.0))
    with pytest.raises(ValueError, match="no filepath"):
        fit(model, checkpoint)
    checkpoint.filepath = folder / "best.txt"
    with pytest.raises(ValueError, match=f"must end in '.{ending}'"):
        fit(model, checkpoint)
    checkpoint.filepath = folder / f"rank{RANK}-{{epoch}}.{ending}"
    # The loss stays the same to the last bit.
    fit(model, hvd.callbacks.MetricAverageCallback(), checkpoint, epochs=3, shuffle=False)
    hora.barrier()
    assert [path.name for path in folder.iterdir()] == [f"rank0-1.{ending}"]
    hora.barrier()


def test_all_callbacks_train_the_same_model_everywhere() -> None:
    recorder = Recorder()
    model = make_model(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1 * SIZE, momentum=0.9)))
    model.compile(model.optimizer, "mse", jit_compile=False)
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.1 * SIZE, warmup_epochs=1),
        hvd.callbacks.LearningRateScheduleCallback(0.1 * SIZE, 0.1, start_epoch=2),
    ]
    history = fit(model, *callbacks, recorder, epochs=3)
    assert same_everywhere(recorder.states)
    assert same_everywhere(recorder.logs)
    assert history["loss"][-1] < history["loss"][0]
