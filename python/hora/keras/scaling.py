"""Loss scaling: the gradients are looked at once they are reduced, so that all ranks skip a step together.

Keras puts the optimizer of a model of policy ``mixed_float16`` into a ``LossScaleOptimizer`` of its own. That
skips a step whose gradients are not finite and does not call the optimizer inside then, which would leave
the other ranks waiting.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import keras

from hora.keras.reducing import ReducingOptimizer, reduced_for, reduces
from hora.keras.rule import Gradient, Variable

__all__ = ["reduce_before_scaling"]


@functools.cache
def reduce_before_scaling() -> None:
    """Make every ``LossScaleOptimizer`` do the reduction of the optimizer inside it."""
    scaled = keras.optimizers.LossScaleOptimizer
    apply_scaled = scaled.apply

    @functools.wraps(apply_scaled)
    def apply(
        self: Any, grads: Iterable[Gradient], trainable_variables: Iterable[Variable] | None = None
    ) -> None:
        inner = self.inner_optimizer
        if not reduces(inner):
            apply_scaled(self, grads, trainable_variables)
            return
        if not isinstance(inner, ReducingOptimizer):
            raise ValueError(
                "the optimizers inside of another are DistributedOptimizers; give the outer one to "
                "DistributedOptimizer"
            )
        chosen = None if trainable_variables is None else list(trainable_variables)
        rule = inner._hora_rule
        gradients = reduced_for(self, rule, grads, chosen)
        with rule.done():
            apply_scaled(self, gradients, chosen)

    scaled.apply = apply
