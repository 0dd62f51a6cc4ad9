"""The callbacks of `hora.keras` on PyTorch."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "torch"

import torch
from keras_callback_cases import *  # noqa: F403
from keras_callback_cases import keras

RANKS = (2,)
LAUNCH = "keras on torch"


def test_the_backend_is_torch() -> None:
    assert keras.backend.backend() == "torch"
    assert isinstance(keras.ops.ones(1), torch.Tensor)
