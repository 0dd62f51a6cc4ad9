"""The names and signatures of Horovod's callbacks for Keras, and their examples."""

from __future__ import annotations

import doctest
import importlib

import pytest
from signatures import signature

pytest.importorskip("keras")
callbacks = importlib.import_module("hora.keras.callbacks")

HOROVOD = {
    "BroadcastGlobalVariablesCallback": "root_rank, device='', local_variables=None",
    "MetricAverageCallback": "device=''",
    "LearningRateScheduleCallback": "initial_lr, multiplier, start_epoch=0, end_epoch=None, staircase=True, "
    "momentum_correction=True, steps_per_epoch=None",
    "LearningRateWarmupCallback": "initial_lr, warmup_epochs=5, momentum_correction=True, "
    "steps_per_epoch=None, verbose=0",
    "BestModelCheckpoint": "monitor='val_loss', verbose=0, mode='auto', save_freq='epoch'",
}

#: With arguments at the end besides.
LONGER = {"BestModelCheckpoint"}


@pytest.mark.parametrize("name", HOROVOD)
def test_name_and_signature_are_horovods(name: str) -> None:
    assert name in callbacks.__all__
    own = signature(callbacks, name)
    assert own == HOROVOD[name] or (name in LONGER and own.startswith(f"{HOROVOD[name]}, "))


@pytest.mark.parametrize("name", ["callbacks", "learning_rate"])
def test_examples_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"hora.keras.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
