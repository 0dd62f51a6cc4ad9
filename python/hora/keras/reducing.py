"""Optimizers that reduce their gradients before anything else looks at them.

The user's optimizer object stays what it is and only gets another class: a subclass of its own, made on the
spot. So its variables and options are kept, and whoever holds it has it reduce.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import keras

from hora.keras.rule import Gradient, Rule, Variable

__all__ = ["ReducingOptimizer", "local_variables_of", "make_reducing", "reduced_for", "reduces"]


class ReducingOptimizer:
    """What an optimizer gains."""

    _hora_rule: Rule

    def apply(self, grads: Iterable[Gradient], trainable_variables: Iterable[Variable] | None = None) -> None:
        """Update the variables by gradients that are reduced over all ranks before."""
        chosen = None if trainable_variables is None else list(trainable_variables)
        gradients = reduced_for(self, self._hora_rule, grads, chosen)
        super().apply(gradients, chosen)  # type: ignore[misc]

    def __reduce__(self) -> NoReturn:
        """Refuse: a copy would not reduce, and nobody would notice."""
        raise TypeError(
            "a DistributedOptimizer is neither copied nor pickled; copy the optimizer before it is wrapped"
        )

    def register_local_var(self, var: Variable) -> None:
        """Leave the gradient of a variable as this rank has it."""
        self._hora_rule.add_local(var)


def reduced_for(
    optimizer: Any, rule: Rule, grads: Iterable[Gradient], variables: list[Variable] | None
) -> list[Gradient]:
    """Return the reduced gradients for ``apply`` of an optimizer, by default for all its variables."""
    gradients = list(grads)
    known = optimizer._trainable_variables if variables is None else variables
    if gradients and len(gradients) != len(known):
        raise ValueError(
            f"{len(gradients)} gradients are given for {len(known)} variables; an optimizer that is not "
            "built yet needs trainable_variables"
        )
    return rule.reduce(gradients, known) if gradients else []


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
        "apply": rule.reduction.as_written(ReducingOptimizer.apply),
    }
    object.__setattr__(optimizer, "__class__", type(former.__name__, (ReducingOptimizer, former), members))


def local_variables_of(optimizer: Any) -> list[Variable]:
    """Return the variables whose gradients an optimizer, or one inside of it, leaves as they are."""
    each = optimizer
    while each is not None and not isinstance(each, ReducingOptimizer):
        each = getattr(each, "inner_optimizer", None)
    return [] if each is None else each._hora_rule.local_variables()


def reduces(optimizer: Any) -> bool:
    """Return whether an optimizer, or one inside of it, reduces already."""
    inside = [getattr(optimizer, "inner_optimizer", None), *getattr(optimizer, "optimizers", ())]
    return isinstance(optimizer, ReducingOptimizer) or any(each and reduces(each) for each in inside)
