"""What callbacks do with variables, each backend of Keras in its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

__all__ = ["broadcast_variables", "scale_variables"]

Variable = Any  # keras.Variable


def broadcast_variables(variables: Sequence[Variable], root_rank: int) -> None:
    """Overwrite variables with the root's, as many and in the same order on all ranks."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        from hora.keras import reduction_tensorflow

        reduction_tensorflow.broadcast_variables(variables, root_rank)
    elif backend == "torch":
        from hora.keras import reduction_torch

        reduction_torch.broadcast_variables(variables, root_rank)
    else:
        raise NotImplementedError(f"hora.keras does not work with the backend {backend} of Keras")


def scale_variables(variables: Sequence[Variable], factor: float) -> None:
    """Multiply variables by a factor."""
    for each in variables:
        each.assign(each.value * factor)
