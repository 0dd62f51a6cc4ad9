"""`keras_scaling` on PyTorch."""

from __future__ import annotations

import keras_on_torch
from keras_scaling import *  # noqa: F403

RANKS = (2,)
LAUNCH = "keras-torch"

assert keras_on_torch.keras.backend.backend() == "torch"
