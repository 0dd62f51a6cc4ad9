"""What reducing gradients needs of a backend of Keras, and which one is in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import keras

from hora._groups import Groups
from hora.compression import Compressor
from hora.process_sets import ProcessSet

__all__ = ["Gradient", "Options", "Reduction", "make_reduction", "of_backend"]

Gradient = Any  # of a backend's own type, or None


@dataclass(frozen=True)
class Options:
    """The arguments of ``DistributedOptimizer`` that say how gradients are reduced."""

    compression: Compressor
    sparse_as_dense: bool
    op: int
    gradient_predivide_factor: float
    num_groups: int
    groups: Groups
    process_set: ProcessSet
    scale_local_gradients: bool


class Reduction(Protocol):
    """Reduces gradients of one backend over all ranks. Results are new tensors."""

    def identity(self, variable: Any) -> int:
        """Return what tells a variable from others."""
        ...

    def reduce(
        self, variables: Sequence[Any], gradients: Sequence[Gradient], local: set[int]
    ) -> list[Gradient]:
        """Reduce the gradients but those of ``local`` variables; None stays None."""
        ...

    def largest(self, gradients: Sequence[Gradient]) -> list[Gradient]:
        """Return the elementwise maximum of the ranks' gradients."""
        ...

    def as_written(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return a function that the backend runs as Python does."""
        ...

    def scaled(self, gradient: Gradient, factor: float) -> Gradient:
        """Return a gradient times a factor."""
        ...


def of_backend() -> Any:
    """Return the module for the backend that Keras runs on."""
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "torch"):
        raise NotImplementedError(
            f"hora.keras works with the backends tensorflow and torch of Keras, not with {backend!r}; set "
            "KERAS_BACKEND before Keras is imported"
        )
    return import_module(f"hora.keras.reduction_{backend}")


def make_reduction(options: Options) -> Reduction:
    """Return how the backend that Keras runs on reduces; check the options."""
    reduction: Reduction = of_backend().BackendReduction(options)
    return reduction
