"""The callbacks of `hora.keras` on TensorFlow."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import tensorflow as tf
from keras_callback_cases import *  # noqa: F403
from keras_callback_cases import keras

RANKS = (2,)
LAUNCH = "tensorflow"


def test_the_backend_is_tensorflow() -> None:
    assert keras.backend.backend() == "tensorflow"
    assert isinstance(keras.ops.ones(1), tf.Tensor)
