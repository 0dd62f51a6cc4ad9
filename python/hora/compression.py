"""Compression: sending a gradient in a smaller dtype than it is kept in."""

from __future__ import annotations

from typing import Any, Generic, Protocol

from hora._adapter import Casts, Tensor

__all__ = ["CastCompressor", "Compressions", "Compressor", "NoneCompressor"]


class Compressor(Protocol):
    """What ``compression=`` accepts: a class or an object with these two functions.

    Examples
    --------
    >>> import hora, numpy as np
    >>> class Halved:
    ...     @staticmethod
    ...     def compress(tensor):
    ...         return tensor.astype(np.float16), tensor.dtype
    ...
    ...     @staticmethod
    ...     def decompress(tensor, ctx):
    ...         return tensor.astype(ctx)
    >>> hora.init()
    >>> hora.allreduce(np.ones(2), compression=Halved)
    array([1., 1.])
    """

    def compress(self, tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to send and whatever ``decompress`` needs besides."""
        ...

    def decompress(self, tensor: Any, ctx: Any) -> Any:
        """Return the tensor in its first form again."""
        ...


class NoneCompressor:
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, None]:
        """Return the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, ctx: None) -> Tensor:
        """Return the tensor itself."""
        return tensor


class CastCompressor(Generic[Tensor]):
    """Sends floating-point tensors in another dtype; others as they are.

    Attributes
    ----------
    dtype : str
        Name of the dtype to send.
    """

    def __init__(self, adapter: Casts[Tensor], dtype: str) -> None:
        self._adapter = adapter
        self.dtype = dtype

    def compress(self, tensor: Tensor) -> tuple[Tensor, str | None]:
        """Return the tensor in the dtype to send, and the name of the dtype it had."""
        dtype = self._adapter.dtype_name(tensor)
        if dtype == self.dtype or "float" not in dtype:
            return tensor, None
        return self._adapter.cast(tensor, self.dtype), dtype

    def decompress(self, tensor: Tensor, ctx: str | None) -> Tensor:
        """Return the tensor in the dtype it had."""
        return tensor if ctx is None else self._adapter.cast(tensor, ctx)

    def __repr__(self) -> str:
        return f"CastCompressor({self.dtype})"


class Compressions(Generic[Tensor]):
    """The ready-made compressors of one framework, its ``Compression``.

    Attributes
    ----------
    none
        Sends tensors as they are, the default.
    fp16, bf16
        Send floating-point tensors as float16 or bfloat16: half the bytes of float32. The sum of all ranks is
        still formed in float32, but on GPUs in the half type. bf16 raises ``ValueError`` where the framework
        does not have the type.
    """

    def __init__(self, adapter: Casts[Tensor]) -> None:
        self.none = NoneCompressor
        self.fp16 = CastCompressor(adapter, "float16")
        self.bf16 = CastCompressor(adapter, "bfloat16")
