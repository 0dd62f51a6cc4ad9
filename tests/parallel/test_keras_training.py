"""`hora.keras` on TensorFlow."""

from __future__ import annotations

import tensorflow as tf
from keras_training import *  # noqa: F403

RANKS = (2,)
LAUNCH = "keras"


def test_keras_runs_on_tensorflow() -> None:
    assert tf.keras.backend.backend() == "tensorflow"
