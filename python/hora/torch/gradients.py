"""Reducing one gradient: dense, compressed or sparse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from hora import _core
from hora._arguments import Sum, set_id
from hora._calls import refuse
from hora._handle import Handle, synchronize
from hora.compression import CastCompressor, Compressor, NoneCompressor
from hora.errors import HorovodInternalError
from hora.process_sets import ProcessSet
from hora.torch.collectives import allgather_async, allreduce_async_, sparse_allreduce_async

__all__ = ["GradientRule", "Pending"]

_ALLREDUCE = _core.OPS["allreduce"]


@dataclass(frozen=True)
class GradientRule:
    """How every gradient of an optimizer is reduced; the arguments of ``DistributedOptimizer``."""

    op: int
    compression: Compressor
    prescale: float
    postscale: float
    sparse_as_dense: bool
    process_set: ProcessSet

    @property
    def is_uncompressed(self) -> bool:
        return self.compression is NoneCompressor

    @property
    def wire(self) -> int | None:
        """The dtype's code as which gradients on a GPU travel: the core casts them while it packs them."""
        compression = self.compression
        return _core.DTYPES[compression.dtype] if isinstance(compression, CastCompressor) else None

    def voting(self) -> GradientRule:
        """Return the rule by which the same ranks count votes."""
        return replace(self, op=Sum, prescale=1.0, postscale=1.0, compression=NoneCompressor)

    def is_plain(self, gradient: torch.Tensor) -> bool:
        """Return whether the core gets the gradient itself, so that :meth:`start_plain` may begin it."""
        in_core = self.is_uncompressed or (self.wire is not None and not gradient.is_cpu)
        return in_core and not gradient.is_sparse

    def start_plain(self, pending: list[Pending]) -> None:
        """Begin to reduce gradients as they are, all with one call into the core where it knows their type.

        What cannot be begun is told to the other ranks, and raised when it is finished.
        """
        handles: list[_core.Handle] = []
        try:
            known = _core.submit_each(
                _ALLREDUCE,
                [each.label for each in pending],
                [each.gradient for each in pending],
                self.op,
                0,
                self.prescale,
                self.postscale,
                set_id(self.process_set),
                handles,
                self.wire,
            )
        except Exception as error:
            refused, known = error, True
        for each, handle in zip(pending, handles, strict=False):
            each.finish = handle.wait
        for each in pending[len(handles) :]:
            if known:
                each.finish = self._refused(each.label, refused)
            else:
                self._start_alone(each)

    def _start_alone(self, pending: Pending) -> None:
        try:
            if self.is_uncompressed:
                pending.finish = partial(synchronize, self._allreduce(pending.gradient, pending.label))
            else:
                pending.finish = self._start_copy(pending)
        except Exception as error:
            pending.finish = self._refused(pending.label, error)

    def _start_copy(self, pending: Pending) -> Callable[[], object]:
        """Begin with a copy that lies close together, so that the core casts it as it does on other ranks."""
        copied = Pending(pending.gradient.contiguous(), pending.label)
        if copied.gradient is pending.gradient:
            raise ValueError(
                f"gradients of {pending.gradient.dtype} on {pending.gradient.device} have no form"
            )
        self.start_plain([copied])

        def finish() -> None:
            copied.finish()
            with torch.no_grad():
                pending.gradient.copy_(copied.gradient)

        return finish

    def _refused(self, label: str, error: Exception) -> Callable[[], object]:
        refuse(_ALLREDUCE, label, error, self.process_set)

        def finish() -> object:
            raise HorovodInternalError(f"the reduction of {label!r} could not begin: {error}") from error

        return finish

    def start(self, parameter: torch.Tensor, label: str, *, announced: bool) -> Pending:
        """Begin to reduce the gradient that the parameter has.

        ``announced`` tells that all ranks know whether the parameter's gradients are sparse.
        """
        gradient = parameter.grad
        assert gradient is not None
        if not gradient.is_sparse:
            return self._start_compressed(gradient, label)
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

        return Pending(gradient, label, finish)

    def _start_compressed(self, gradient: torch.Tensor, label: str) -> Pending:
        handle, ctx = self._compressed(gradient, label)

        def finish() -> None:
            with torch.no_grad():
                gradient.copy_(self.compression.decompress(synchronize(handle), ctx))

        return Pending(gradient, label, finish)

    def _start_densified(self, gradient: torch.Tensor, label: str) -> Pending:
        handle, ctx = self._compressed(gradient.to_dense(), label)

        def finish() -> None:
            dense = self.compression.decompress(synchronize(handle), ctx)
            replace_sparse(gradient, dense.to_sparse(gradient.sparse_dim()))

        return Pending(gradient, label, finish)

    def _compressed(self, gradient: torch.Tensor, label: str) -> tuple[Handle[torch.Tensor], Any]:
        try:
            compressed, ctx = self.compression.compress(gradient)
        except Exception as error:
            refuse(_ALLREDUCE, label, error, self.process_set)
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
    label : str
        Its name in messages.
    version : int
        PyTorch's count of writes to the gradient when the reduction began.
    finish : callable
        Waits for the result and writes it; call it once, after the reduction has begun.
    """

    __slots__ = ("finish", "gradient", "label", "version")

    def __init__(
        self, gradient: torch.Tensor, label: str, finish: Callable[[], object] | None = None
    ) -> None:
        self.gradient = gradient
        self.label = label
        self.version = gradient._version
        self.finish = not_begun if finish is None else finish

    def untouched(self) -> bool:
        """Return whether nobody but hora has written to the gradient since the reduction began."""
        return self.gradient._version == self.version


def not_begun() -> object:
    """Stand for the end of a reduction that has not begun."""
    raise AssertionError("this reduction has not begun")


def replace_sparse(gradient: torch.Tensor, result: torch.Tensor) -> None:
    """Give a sparse gradient other entries, in place: the optimizer and others may hold it."""
    with torch.no_grad():
        gradient.copy_(result)
