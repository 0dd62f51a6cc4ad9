"""What the tests of `hora.tensorflow` share: its tensors, and both ways to run a function."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import tensorflow as tf
from front_ends import DTYPES, FRONT_ENDS

import hora

RANK, SIZE = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])

MODES = {"eager": lambda function: function, "graph": lambda function: tf.function(function)}
in_both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
of_all_dtypes = pytest.mark.parametrize("dtype", DTYPES)

Mode = Callable[[Callable[..., Any]], Callable[..., Any]]

tensor = FRONT_ENDS[0].tensor
array = FRONT_ENDS[0].array


def same_everywhere(values: numpy.ndarray) -> bool:
    """Return whether all ranks have the same bits."""
    gathered = hora.allgather_object(values.tobytes())
    return all(each == gathered[0] for each in gathered)
