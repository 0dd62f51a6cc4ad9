"""`hora.keras` on PyTorch."""

from __future__ import annotations

import keras_on_torch
import torch
from keras_training import *  # noqa: F403

RANKS = (2,)
LAUNCH = "keras-torch"


def test_keras_runs_on_torch() -> None:
    assert keras_on_torch.keras.backend.backend() == "torch"
    assert isinstance(keras_on_torch.keras.ops.ones(1), torch.Tensor)
