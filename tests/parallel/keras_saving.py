"""Saving and loading on any backend."""

from __future__ import annotations

import copy
import pickle
import zipfile
from pathlib import Path
from typing import Any

import keras
import pytest
from keras_ranks import (
    ALL,
    OWN,
    RANK,
    EqualEpochs,
    Optimizer,
    assert_close,
    assert_fits_close,
    fit,
    make_model,
    state_of,
)

import hora.keras as hvd

optimizers = keras.optimizers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of which all ranks know."""
    return Path(hvd.broadcast_object(str(tmp_path / "model.keras")))


def trained(optimizer: Optimizer, rows: slice) -> keras.Model:
    """Return a model after two epochs."""
    model = make_model()
    model.compile(optimizer, "mse", jit_compile=False)
    fit(model, rows, epochs=2)
    return model


def save(model: keras.Model, path: Path) -> None:
    """Write the model of rank 0."""
    if RANK == 0:
        model.save(path)
    hvd.barrier()


MAKERS = {
    "adam": lambda: optimizers.Adam(0.01),
    "accumulation": lambda: optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=2),
    "scaled": lambda: optimizers.LossScaleOptimizer(optimizers.Adam(0.01), initial_scale=4.0),
}


@pytest.mark.parametrize("name", MAKERS)
def test_training_goes_on_after_loading(name: str, path: Path) -> None:
    expected = fit(trained(MAKERS[name](), ALL), ALL)
    save(trained(hvd.DistributedOptimizer(MAKERS[name]()), OWN), path)
    model = hvd.load_model(path)
    equal = EqualEpochs()
    assert_fits_close(fit(model, OWN, callbacks=[equal]), expected)
    assert equal.count == 3
    with pytest.raises(ValueError, match="already"):
        hvd.DistributedOptimizer(model.optimizer)


def test_what_is_saved_loads_without_hora(path: Path) -> None:
    model = trained(hvd.DistributedOptimizer(MAKERS["adam"]()), OWN)
    save(model, path)
    with zipfile.ZipFile(path) as archive:
        assert b"hora" not in archive.read("config.json")
    loaded = keras.models.load_model(path)
    assert type(loaded.optimizer) is type(MAKERS["adam"]())
    assert_close(state_of(loaded.optimizer), state_of(model.optimizer), within=0.0)


def test_a_model_of_an_ordinary_optimizer_becomes_distributed(path: Path) -> None:
    save(trained(MAKERS["adam"](), ALL), path)
    equal = EqualEpochs()
    fit(hvd.load_model(path), OWN, callbacks=[equal])
    assert equal.count == 3


class Halving(optimizers.SGD):
    """An optimizer that Keras does not know."""

    def update_step(self, gradient: object, variable: object, learning_rate: object) -> None:
        super().update_step(gradient * 0.5, variable, learning_rate)


def test_optimizers_that_keras_does_not_know(path: Path) -> None:
    save(trained(hvd.DistributedOptimizer(Halving(0.1)), OWN), path)
    with pytest.raises(TypeError, match="Halving"):
        hvd.load_model(path)
    for arguments in ({"custom_optimizers": [Halving]}, {"custom_objects": {"Halving": Halving}}):
        assert isinstance(hvd.load_model(path, **arguments).optimizer, Halving)


def test_compression_is_that_of_the_call(path: Path) -> None:
    class Counting:
        calls = 0

        @classmethod
        def compress(cls, tensor: object) -> tuple[object, None]:
            cls.calls += 1
            return tensor, None

        @staticmethod
        def decompress(tensor: object, ctx: None) -> object:
            return tensor

    save(trained(MAKERS["adam"](), ALL), path)
    fit(hvd.load_model(path, compression=Counting), OWN, epochs=1)
    assert Counting.calls >= 4


def test_a_model_that_was_not_compiled_has_no_optimizer(path: Path) -> None:
    save(make_model(), path)
    assert not hvd.load_model(path).compiled


@pytest.mark.parametrize("copy_of", [copy.deepcopy, pickle.dumps])
def test_copies_that_would_not_reduce_are_refused(copy_of: Any) -> None:
    optimizer = hvd.DistributedOptimizer(optimizers.Adam())
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        copy_of(optimizer)


def test_accumulation_goes_on_where_it_was(path: Path) -> None:
    make = MAKERS["accumulation"]
    save(trained(hvd.DistributedOptimizer(make(), backward_passes_per_step=2), OWN), path)
    model = keras.models.load_model(path)
    hvd.DistributedOptimizer(model.optimizer, backward_passes_per_step=2)
    with pytest.raises(ValueError, match="contradicts the optimizer's gradient_accumulation_steps=2"):
        hvd.DistributedOptimizer(make(), backward_passes_per_step=3)


def test_legacy_optimizers_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="no legacy optimizers"):
        hvd.load_model(path, legacy_opts=True)
