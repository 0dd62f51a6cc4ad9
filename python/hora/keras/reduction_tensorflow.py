"""Reducing the gradients of Keras on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hora.tensorflow as hvd
from hora.keras.reduction import Gradient, Options
from hora.tensorflow.gradients import as_written, identity, make_rule, scaled

__all__ = ["BackendReduction", "broadcast_variables"]


class BackendReduction:
    """See :class:`~hora.keras.reduction.Reduction`."""

    def __init__(self, options: Options) -> None:
        self._rule = make_rule(**vars(options))

    def identity(self, variable: Any) -> int:
        """Return what tells a variable from others."""
        return identity(variable)

    def reduce(
        self, variables: Sequence[Any], gradients: Sequence[Gradient], local: set[int]
    ) -> list[Gradient]:
        """Reduce the gradients."""
        return self._rule.reduce(variables, gradients, local)

    def largest(self, gradients: Sequence[Gradient]) -> list[Gradient]:
        """Return the elementwise maximum."""
        members = self._rule.process_set
        if not members.included() or len(members.ranks) == 1:
            return list(gradients)
        return hvd.grouped_allreduce(gradients, op=hvd.Max, process_set=members)

    def as_written(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return a function that AutoGraph leaves as it is."""
        unchanged: Callable[..., None] = as_written(function)
        return unchanged

    def scaled(self, gradient: Gradient, factor: float) -> Gradient:
        """Return a gradient times a factor."""
        return scaled(gradient, factor)


def broadcast_variables(variables: Sequence[Any], root_rank: int) -> None:
    """Overwrite variables with the root's."""
    hvd.broadcast_variables(variables, root_rank)
