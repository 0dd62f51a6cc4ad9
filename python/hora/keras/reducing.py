"""Optimizers that reduce their gradients before anything else looks at them.

The user's optimizer object stays what it is and only gets another class: a subclass of its own, made on the
spot. So its variables and options are kept, and whoever made it sees it reduce.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras

from hora.keras.reduction import Gradient, Reduction

__all__ = ["ReducingOptimizer", "Rule", "make_reducing"]

Variable = Any  # keras.Variable, or one of the backend


class Rule:
    """How one optimizer reduces.

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
        self._reduction = reduction
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

        Those with which Keras overwrites variables, such as scales of float8, become the largest of all.
        """
        if self._is_done:
            return list(gradients)
        results = list(gradients)
        overwrite = [
            at
            for at, variable in enumerate(variables)
            if getattr(variable, "overwrite_with_gradient", False) and gradients[at] is not None
        ]
        if overwrite:
            for at, result in zip(
                overwrite, self._reduction.largest([gradients[at] for at in overwrite]), strict=True
            ):
                results[at] = result
        others = [at for at in range(len(results)) if at not in set(overwrite)]
        reduced = self._reduction.reduce(
            [variables[at] for at in others], [gradients[at] for at in others], self._local()
        )
        for at, result in zip(others, reduced, strict=True):
            results[at] = self._scaled(result)
        return results

    def _local(self) -> set[int]:
        """Return which variables are local; layers may have been built since."""
        variables = [variable for layer in self._local_layers for variable in layer.trainable_variables]
        return {self._reduction.identity(each) for each in variables + self._local_variables}

    def _scaled(self, gradient: Gradient) -> Gradient:
        if gradient is None or self._factor == 1.0:
            return gradient
        return self._reduction.scaled(gradient, self._factor)


class ReducingOptimizer:
    """What an optimizer gains."""

    _hora_rule: Rule
    _trainable_variables: list[Variable]

    def apply(self, grads: Iterable[Gradient], trainable_variables: Iterable[Variable] | None = None) -> None:
        """Update the variables by gradients that are reduced over all ranks before."""
        gradients = list(grads)
        variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
        if len(gradients) == len(variables):
            gradients = self._hora_rule.reduce(gradients, variables)
        super().apply(gradients, trainable_variables)  # type: ignore[misc]

    def register_local_var(self, var: Variable) -> None:
        """Leave the gradient of a variable as this rank has it."""
        self._hora_rule.add_local(var)


def make_reducing(optimizer: keras.optimizers.Optimizer, rule: Rule) -> None:
    """Give an optimizer a subclass of its class that reduces.

    ``__class__`` still tells the class that it had, which is what Keras writes into files.
    """
    former = type(optimizer)
    members = {
        "__class__": property(lambda self: former),
        "__doc__": former.__doc__,
        "__module__": former.__module__,
        "__qualname__": former.__qualname__,
        "_hora_rule": rule,
    }
    object.__setattr__(optimizer, "__class__", type(former.__name__, (ReducingOptimizer, former), members))
