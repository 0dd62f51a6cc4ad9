"""Imported before Keras, makes it run on PyTorch."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras

__all__ = ["keras"]
