"""Reducing one gradient: dense, compressed or sparse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hora import _core
from hora._calls import refuse
from hora._handle import Handle, synchronize
from hora.compression import Compressor, NoneCompressor
from hora.errors import HorovodInternalError
from hora.process_sets import ProcessSet
from hora.torch.collectives import allgather_async, allreduce_async_, sparse_allreduce_async

__all__ = ["GradientRule", "Pending"]


@dataclass(frozen=True)
class GradientRule:
    """How every gradient of an optimizer is reduced; the arguments of ``DistributedOptimizer``."""

    op: int
    compression: Compressor
    prescale: float
    postscale: float
    sparse_as_dense: bool
    process_set: ProcessSet

    def start(self, parameter: torch.Tensor, label: str, *, announced: bool) -> Pending:
        """Begin to reduce the gradient that the parameter has.

        ``announced`` tells that all ranks know whether the parameter's gradients are sparse.
        """
        gradient = parameter.grad
        assert gradient is not None
        if not gradient.is_sparse:
            return self._start_dense(gradient, label)
        if self.sparse_as_dense:
            return self._start_densified(gradient, label)
        return self._start_sparse(gradient, label, announced)

    def _start_sparse(self, gradient: torch.Tensor, label: str, announced: bool) -> Pending:
        """Gather the entries; before the first time a rank that has none is found out by a mismatch."""
        announcement = None if announced else allgather_async(torch.zeros(1), label, self.process_set)
        gather = sparse_allreduce_async(gradient, label, self.op, self.process_set)

        def finish() -> None:
            try:
                if announcement is not None:
                    synchronize(announcement)
            except HorovodInternalError as error:
                raise HorovodInternalError(
                    f"{error}: the gradient is sparse on some ranks, dense or missing on others; use "
                    "sparse_as_dense=True"
                ) from error
            replace_sparse(gradient, gather())

        return Pending(gradient, finish)

    def _start_dense(self, gradient: torch.Tensor, label: str) -> Pending:
        if self.compression is NoneCompressor:
            handle = self._allreduce(gradient, label)
            return Pending(gradient, lambda: synchronize(handle))
        handle, ctx = self._compressed(gradient, label)

        def finish() -> None:
            with torch.no_grad():
                gradient.copy_(self.compression.decompress(synchronize(handle), ctx))

        return Pending(gradient, finish)

    def _start_densified(self, gradient: torch.Tensor, label: str) -> Pending:
        handle, ctx = self._compressed(gradient.to_dense(), label)

        def finish() -> None:
            dense = self.compression.decompress(synchronize(handle), ctx)
            replace_sparse(gradient, dense.to_sparse(gradient.sparse_dim()))

        return Pending(gradient, finish)

    def _compressed(self, gradient: torch.Tensor, label: str) -> tuple[Handle[torch.Tensor], Any]:
        try:
            compressed, ctx = self.compression.compress(gradient)
        except Exception as error:
            refuse(_core.OPS["allreduce"], label, error, self.process_set)
            raise
        return self._allreduce(compressed, label), ctx

    def _allreduce(self, tensor: torch.Tensor, label: str) -> Handle[torch.Tensor]:
        return allreduce_async_(tensor, None, label, self.op, self.prescale, self.postscale, self.process_set)


class Pending:
    """A gradient under reduction.

    Attributes
    ----------
    gradient : torch.Tensor
        Gets the result.
    version : int
        PyTorch's count of writes to the gradient when the reduction began.
    finish : callable
        Waits for the result and writes it; call it once.
    """

    __slots__ = ("finish", "gradient", "version")

    def __init__(self, gradient: torch.Tensor, finish: Callable[[], object]) -> None:
        self.gradient = gradient
        self.version = gradient._version
        self.finish = finish

    def untouched(self) -> bool:
        """Return whether nobody but hora has written to the gradient since the reduction began."""
        return self.gradient._version == self.version


def replace_sparse(gradient: torch.Tensor, result: torch.Tensor) -> None:
    """Give a sparse gradient other entries, in place: the optimizer and others may hold it."""
    with torch.no_grad():
        gradient.copy_(result)
