"""The seam between the collectives and a framework: all that hora needs to know about a tensor type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from hora import _core

__all__ = ["Adapter", "Casts", "Ref", "Tensor"]

Tensor = TypeVar("Tensor")

#: Memory of a tensor: its address, shape and dtype code (``_core.DTYPES``).
Ref = tuple[int, tuple[int, ...], int]


class Casts(Protocol[Tensor]):
    """What a framework provides so that its tensors can be compressed."""

    def dtype_name(self, tensor: Tensor) -> str:
        """Return the dtype's name as in ``_core.DTYPES``, or the framework's own."""
        ...

    def cast(self, tensor: Tensor, dtype: str) -> Tensor:
        """Convert to the dtype of this name; ``ValueError`` where the framework does not have it."""
        ...


class Adapter(Casts[Tensor], Protocol[Tensor]):
    """What a framework provides so that every collective works on its tensors."""

    def contiguous(self, tensor: Tensor, writable: bool = False) -> Tensor:
        """Return the tensor itself if its memory is C-contiguous, else a contiguous copy.

        Raises ``TypeError`` for what is no tensor, ``ValueError`` for a tensor whose memory cannot be used
        or, with ``writable``, cannot be written.
        """
        ...

    def to_ref(self, tensor: Tensor) -> Ref:
        """Describe the memory of a contiguous tensor; ``ValueError`` for a dtype that hora does not have."""
        ...

    def device(self, tensor: Tensor) -> int:
        """Return the number of the GPU whose memory a contiguous tensor is; -1 for host memory."""
        ...

    def stream(self, device: int) -> int:
        """Return, as a number, the stream on which this thread works on a GPU."""
        ...

    def address(self, tensor: Tensor) -> int:
        """Return where the memory of a contiguous tensor begins."""
        ...

    def empty_like(self, tensor: Tensor) -> Tensor:
        """Return a new contiguous tensor of the same shape and dtype, not filled."""
        ...

    def zeros_like(self, tensor: Tensor) -> Tensor:
        """Return a new tensor of the same shape and dtype, filled with zeros."""
        ...

    def empty_rows(self, tensor: Tensor, rows: int) -> Tensor:
        """Return a new contiguous tensor like a given one, not filled, of another number of rows."""
        ...

    def integers(self, values: list[int]) -> Tensor:
        """Return a new 1-d tensor of dtype int32."""
        ...

    def scaled(self, tensor: Tensor, factor: float) -> Tensor:
        """Return the tensor multiplied by a factor."""
        ...

    def rows(self, tensor: Tensor, start: int, stop: int) -> Tensor:
        """Return ``tensor[start:stop]``."""
        ...

    def copy_into(self, target: Tensor, source: Tensor) -> None:
        """Write the values of ``source`` into the memory of ``target``, whose strides stay as they are."""
        ...

    def from_output(self, output: _core.Output, like: Tensor) -> Tensor:
        """Wrap memory that the core allocated, without a copy; dtype and device are those of ``like``."""
        ...

    def differentiable(self, tensor: Tensor) -> bool:
        """Return whether the framework records operations on this tensor; must accept any object."""
        ...

    def record(
        self,
        tensors: list[Tensor],
        forward: Callable[[list[Tensor]], list[Tensor]],
        backward: Callable[[list[Tensor]], list[Tensor]],
    ) -> list[Tensor]:
        """Run ``forward(tensors)`` as one recorded operation.

        ``backward`` gets the gradient of every result and returns that of every tensor; those of tensors that
        are not of floating point are not looked at.
        """
        ...
