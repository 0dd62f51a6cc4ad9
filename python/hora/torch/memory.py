"""Tensors in memory that the ranks of a host share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from hora import _core
from hora.torch.adapter import dtype_code

__all__ = ["shared_empty"]


def shared_empty(*size: int | Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return a new contiguous tensor, not filled, that ranks of one host reduce without copying it.

    ``allreduce_`` of such tensors, when every rank of the process set has one and all are on one host, reads
    and writes each element once. Anywhere else they behave like ordinary tensors, also after
    :func:`shutdown`.

    Memory that is dropped is used again by later calls, not given back to the system.

    Parameters
    ----------
    *size : int or sequence of int
        Extents, as for ``torch.empty``.
    dtype : torch.dtype, optional
        By default PyTorch's default dtype.

    Raises
    ------
    NotInitializedError
        Before :func:`init`.
    ValueError
        For a negative extent or a dtype that is not supported.
    RuntimeError
        When there is not enough shared memory; the text says how much is needed and free.

    Examples
    --------
    >>> import torch
    >>> import hora.torch as hvd
    >>> hvd.init()
    >>> hvd.allreduce_(hvd.shared_empty(2, 3).fill_(1))
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    extents = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)  # type: ignore[arg-type]
    dtype = torch.get_default_dtype() if dtype is None else dtype
    dtype_code(dtype)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"shared_empty: negative extents in {tuple(extents)}")
    count = math.prod(extents)
    if count == 0:
        return torch.empty(extents, dtype=dtype)
    return torch.frombuffer(_core.allocate(count * dtype.itemsize), dtype=dtype).view(extents)
