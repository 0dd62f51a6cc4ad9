"""What callbacks do with variables, each backend of Keras in its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from hora.keras.reduction import of_backend

__all__ = ["broadcast_variables", "identity", "scale_variables", "slots_of"]

Variable = Any  # keras.Variable
#: Attributes of an optimizer that list variables, but no state of its variables.
NO_SLOTS = ("_variables", "_trainable_variables")


def broadcast_variables(variables: Sequence[Variable], root_rank: int) -> None:
    """Overwrite variables with the root's, as many and in the same order on all ranks."""
    of_backend().broadcast_variables(variables, root_rank)


def identity(variable: Any) -> int:
    """Return what tells a variable from others; one of Keras is the backend's inside it."""
    return id(getattr(variable, "_value", variable))


def slots_of(optimizer: Any, variables: Sequence[Any]) -> list[Variable]:
    """Return what an optimizer that is built keeps for some variables, such as their momentum."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    chosen = set(map(identity, variables))
    known = inner._trainable_variables
    places = [at for at, each in enumerate(known) if identity(each) in chosen]
    by_variable = [
        each
        for name, each in vars(inner).items()
        if isinstance(each, list) and len(each) == len(known) and name not in NO_SLOTS
    ]
    return [slots[at] for slots in by_variable for at in places if isinstance(slots[at], keras.Variable)]


def scale_variables(variables: Sequence[Variable], factor: float) -> None:
    """Multiply variables by a factor."""
    for each in variables:
        each.assign(each.value * factor)
