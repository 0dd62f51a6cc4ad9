"""How one optimizer reduces its gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hora.keras.reduction import Gradient, Reduction

__all__ = ["Gradient", "Rule", "Variable"]

Variable = Any  # keras.Variable, or one of the backend


class Rule:
    """How one optimizer reduces.

    Used by the thread that trains, in graph mode while it builds the graph.

    Parameters
    ----------
    reduction
        Reduces gradients of the backend.
    local_layers : iterable of layers
        Those whose variables are each rank's own.
    factor : float
        Multiplied to the gradients.
    """

    def __init__(self, reduction: Reduction, local_layers: Iterable[Any], factor: float) -> None:
        self.reduction = reduction
        self._local_layers = list(local_layers)
        self._local_variables: list[Variable] = []
        self._factor = factor
        self._is_done = False

    def add_local(self, variable: Variable) -> None:
        """Leave the gradients of a variable as this rank has them."""
        self._local_variables.append(variable)

    @contextmanager
    def done(self) -> Iterator[None]:
        """Pass gradients on as they are: they were reduced already."""
        self._is_done = True
        try:
            yield
        finally:
            self._is_done = False

    def reduce(self, gradients: Sequence[Gradient], variables: Sequence[Variable]) -> list[Gradient]:
        """Return the gradients, reduced over all ranks.

        Those by which Keras replaces variables, such as scales of float8, become the largest of all.
        """
        results = list(gradients)
        if self._is_done:
            return results
        local = self._local()
        replace = [
            at
            for at, each in enumerate(gradients)
            if each is not None
            and is_replaced(variables[at])
            and self.reduction.identity(variables[at]) not in local
        ]
        if replace:
            put(results, replace, self.reduction.largest([gradients[at] for at in replace]))
        others = [at for at in range(len(results)) if not is_replaced(variables[at])]
        reduced = self.reduction.reduce(
            [variables[at] for at in others], [gradients[at] for at in others], local
        )
        put(results, others, map(self._scaled, reduced))
        return results

    def local_variables(self) -> list[Variable]:
        """Return the variables that are each rank's own; layers may have been built since."""
        variables = [variable for layer in self._local_layers for variable in layer.trainable_variables]
        return variables + self._local_variables

    def _local(self) -> set[int]:
        return {self.reduction.identity(each) for each in self.local_variables()}

    def _scaled(self, gradient: Gradient) -> Gradient:
        if gradient is None or self._factor == 1.0:
            return gradient
        return self.reduction.scaled(gradient, self._factor)


def is_replaced(variable: Variable) -> bool:
    """Return whether Keras replaces a variable by its gradient."""
    return bool(getattr(variable, "overwrite_with_gradient", False))


def put(results: list[Gradient], places: list[int], values: Iterable[Gradient]) -> None:
    """Write values into their places."""
    for at, value in zip(places, values, strict=True):
        results[at] = value
