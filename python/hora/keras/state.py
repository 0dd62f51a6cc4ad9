"""What callbacks do with variables, each backend of Keras in its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

__all__ = ["broadcast_variables", "scale_variables"]

Variable = Any  # keras.Variable


def broadcast_variables(variables: Sequence[Variable], root_rank: int) -> None:
    """Overwrite variables with the root's, as many and in the same order on all ranks."""
    if keras.backend.backend() == "tensorflow":
        import hora.tensorflow

        hora.tensorflow.broadcast_variables(variables, root_rank)
        return
    import hora.torch

    named = [(f"variable {number}", each.value) for number, each in enumerate(variables)]
    hora.torch.broadcast_parameters(named, root_rank)


def scale_variables(variables: Sequence[Variable], factor: float) -> None:
    """Multiply variables by a factor."""
    for each in variables:
        each.assign(each.value * factor)
