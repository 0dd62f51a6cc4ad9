"""What the tests of `hora.tensorflow` share: a single thread, and both ways to run a function."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import tensorflow as tf
from front_ends import DTYPES, FLOATS

import hora

# The hardest case for whoever would wait in one: TensorFlow then runs one operation at a time.
tf.config.threading.set_inter_op_parallelism_threads(1)

RANK, SIZE = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])

MODES = {"eager": lambda function: function, "graph": lambda function: tf.function(function)}
in_both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
of_all_dtypes = pytest.mark.parametrize("dtype", DTYPES)

Mode = Callable[[Callable[..., Any]], Callable[..., Any]]


def tensor(values: Any, dtype: str) -> tf.Tensor:
    """Return a new tensor."""
    return tf.cast(tf.constant(numpy.array(values)), tf.as_dtype(dtype))


def array(values: tf.Tensor) -> numpy.ndarray:
    """Return the values of a tensor exactly, as bool, int64 or float64."""
    kind = "float64" if values.dtype.name in FLOATS else "bool" if values.dtype == tf.bool else "int64"
    return numpy.array(values.numpy()).astype(kind)


def same_everywhere(values: numpy.ndarray) -> bool:
    """Return whether all ranks have the same bits."""
    gathered = hora.allgather_object(values.tobytes())
    return all(each == gathered[0] for each in gathered)
