"""`keras_scaling` on TensorFlow."""

from __future__ import annotations

from keras_scaling import *  # noqa: F403

RANKS = (2,)
LAUNCH = "keras"
