"""Reducing the gradients of Keras on PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hora.torch as hvd
from hora._arguments import Average, set_id
from hora._groups import batches, read_groups
from hora.keras.reduction import Gradient, Options

__all__ = ["BackendReduction", "broadcast_variables"]


class BackendReduction:
    """See :class:`~hora.keras.reduction.Reduction`."""

    def __init__(self, options: Options) -> None:
        factor = float(options.gradient_predivide_factor)
        if factor != 1.0 and options.op != Average:
            raise ValueError("gradient_predivide_factor needs op=Average")
        set_id(options.process_set)
        self._options = options
        self._scale = (1.0 / factor, factor)
        self._groups = read_groups(options.num_groups, options.groups, id) or 1

    def identity(self, variable: Any) -> int:
        """Return what tells a variable from others."""
        return id(variable)

    def reduce(
        self, variables: Sequence[Any], gradients: Sequence[Gradient], local: set[int]
    ) -> list[Gradient]:
        """Reduce the gradients, all in one operation unless groups say otherwise."""
        results = list(gradients)
        if self._is_alone():
            return results
        dense = []
        for at, (variable, each) in enumerate(zip(variables, gradients, strict=True)):
            if each is None:
                continue
            if id(variable) in local:
                results[at] = self._local(each)
            elif each.is_sparse and not self._options.sparse_as_dense:
                results[at] = self._reduce_sparse(each)
            else:
                dense.append(at)
        for batch in batches(self._groups, dense, [id(variable) for variable in variables]):
            reduced = self._reduce_together([gradients[at] for at in batch])
            for at, result in zip(batch, reduced, strict=True):
                results[at] = result
        return results

    def largest(self, gradients: Sequence[Gradient]) -> list[Gradient]:
        """Return the elementwise maximum."""
        if self._is_alone():
            return list(gradients)
        return hvd.grouped_allreduce(gradients, op=hvd.Max, process_set=self._options.process_set)

    def as_written(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return the function itself."""
        return function

    def scaled(self, gradient: Gradient, factor: float) -> Gradient:
        """Return a gradient times a factor."""
        return gradient * factor

    def _is_alone(self) -> bool:
        members = self._options.process_set
        return not members.included() or len(members.ranks) == 1

    def _local(self, gradient: Gradient) -> Gradient:
        if not self._options.scale_local_gradients:
            return gradient
        return gradient / len(self._options.process_set.ranks)

    def _reduce_sparse(self, gradient: Gradient) -> Gradient:
        options = self._options
        return hvd.sparse_allreduce_async(gradient, op=options.op, process_set=options.process_set)()

    def _reduce_together(self, gradients: list[Gradient]) -> list[Gradient]:
        options = self._options
        return hvd.grouped_allreduce(
            [each.to_dense() if each.is_sparse else each.contiguous() for each in gradients],
            compression=options.compression,
            op=options.op,
            prescale_factor=self._scale[0],
            postscale_factor=self._scale[1],
            process_set=options.process_set,
        )


def broadcast_variables(variables: Sequence[Any], root_rank: int) -> None:
    """Overwrite variables with the root's."""
    named = [(f"variable {number}", each.value) for number, each in enumerate(variables)]
    hvd.broadcast_parameters(named, root_rank)
