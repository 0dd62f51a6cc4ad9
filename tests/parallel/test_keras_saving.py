"""`keras_saving` on TensorFlow."""

from __future__ import annotations

from keras_saving import *  # noqa: F403

RANKS = (2,)
LAUNCH = "keras"
