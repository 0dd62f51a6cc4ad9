"""`keras_values` on TensorFlow."""

from __future__ import annotations

from keras_values import *  # noqa: F403

RANKS = (2,)
LAUNCH = "keras"
