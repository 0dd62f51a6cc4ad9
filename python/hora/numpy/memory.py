"""Arrays in memory that the ranks of a host share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from hora import _core
from hora.numpy.adapter import Array, dtype_code

__all__ = ["shared_empty"]


def shared_empty(shape: int | Sequence[int], dtype: DTypeLike = np.float32) -> Array:
    """Return a new C-contiguous array, not filled, that ranks of one host reduce without copying it.

    ``allreduce_`` of such arrays, when every rank of the process set has one and all are on one host, reads
    and writes each element once. Anywhere else they behave like ordinary arrays, also after
    :func:`hora.shutdown`.

    Memory that is dropped is used again by later calls, not given back to the system.

    Parameters
    ----------
    shape : int or sequence of int
        Extents.
    dtype : dtype
        One of the dtypes that collectives accept.

    Raises
    ------
    NotInitializedError
        Before :func:`hora.init`.
    ValueError
        For a negative extent or a dtype that is not supported.
    RuntimeError
        When there is not enough shared memory; the text says how much is needed and free.

    Examples
    --------
    >>> import hora, hora.numpy
    >>> hora.init()
    >>> gradients = hora.numpy.shared_empty((2, 3))
    >>> gradients[:] = 1
    >>> hora.allreduce_(gradients)
    array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    element = np.dtype(dtype)
    dtype_code(element)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"shared_empty: negative extents in {extents}")
    memory = _core.allocate(math.prod(extents) * element.itemsize)
    array: Array = np.asarray(memoryview(memory)).view(element).reshape(extents)
    return array
