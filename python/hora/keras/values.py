"""Collectives of values, which are evaluated: what they return is NumPy's."""

from __future__ import annotations

from typing import Any, NoReturn

import keras
import numpy as np

import hora.numpy as collectives
from hora._arguments import Average
from hora.compression import Compressions, Compressor, NoneCompressor

__all__ = [
    "Compression",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "reducescatter",
]

Value = Any  # a tensor or variable of the backend, an array, a number or nested lists of numbers


class KerasCasts:
    """What compression needs to know of the backend's tensors, and of arrays."""

    def dtype_name(self, tensor: Any) -> str:
        """Return the name of the dtype."""
        return str(keras.backend.standardize_dtype(tensor.dtype))

    def cast(self, tensor: Any, dtype: str) -> Any:
        """Convert to another dtype."""
        if not isinstance(tensor, np.ndarray):
            return keras.ops.cast(tensor, dtype)
        if dtype == "bfloat16":
            raise ValueError("NumPy has no bfloat16; use Compression.fp16")
        return tensor.astype(dtype)


Compression = Compressions(KerasCasts())


def allreduce(
    value: Value,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Compressor = NoneCompressor,
) -> np.ndarray[Any, Any]:
    """Reduce a value over all ranks.

    Parameters
    ----------
    value : tensor, variable, array, number or list of numbers
        Same shape and dtype on all ranks.
    name : str, optional
        Which calls belong together; without it, by their order.
    average : bool, optional
        Deprecated: True is ``op=Average``, False ``op=Sum``.
    prescale_factor, postscale_factor : float
        Multiplied to the value before, to the result after the reduction.
    op : optional
        ``Average`` (default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``, see
        :class:`hora.ReduceOp`.
    compression : Compressor
        Converts the value before it is sent and the result back.

    Returns
    -------
    numpy.ndarray
        Of the shape and dtype of the value.

    Raises
    ------
    ValueError, TypeError
        For an argument that this rank refuses.
    HorovodInternalError
        On all ranks, when they disagree, or a rank left or was lost.

    Examples
    --------
    >>> import hora.keras as hvd
    >>> hvd.init()
    >>> hvd.allreduce([3.0, 3.0])
    array([3., 3.])
    """
    return collectives.allreduce(
        evaluated(value), average, name, compression, op, prescale_factor, postscale_factor
    )


def allgather(value: Value, name: str | None = None) -> np.ndarray[Any, Any]:
    """Concatenate the ranks' values along their first dimension, in the order of ranks.

    Parameters
    ----------
    value : tensor, variable, array or list of numbers
        At least 1-d. The first dimension may differ between ranks and may be 0; dtype and the other
        dimensions are the same on all.
    name : str, optional
        As for :func:`allreduce`.

    Returns
    -------
    numpy.ndarray

    Examples
    --------
    >>> import hora.keras as hvd
    >>> hvd.init()
    >>> hvd.allgather([hvd.rank()]).tolist() == list(range(hvd.size()))
    True
    """
    return collectives.allgather(evaluated(value), name)


def broadcast(value: Value, root_rank: int, name: str | None = None) -> np.ndarray[Any, Any]:
    """Return the root's value on all ranks.

    Parameters
    ----------
    value : tensor, variable, array, number or list of numbers
        Same shape and dtype on all ranks.
    root_rank : int
        Whose value all ranks get.
    name : str, optional
        As for :func:`allreduce`.

    Returns
    -------
    numpy.ndarray

    Examples
    --------
    >>> import hora.keras as hvd
    >>> hvd.init()
    >>> int(hvd.broadcast(hvd.rank(), root_rank=0))
    0
    """
    return collectives.broadcast(evaluated(value), root_rank, name)


def reducescatter(value: Value, name: str | None = None, op: int = Average) -> np.ndarray[Any, Any]:
    """Reduce a value over all ranks and give each some of the result's rows.

    Parameters
    ----------
    value : tensor, variable, array or list of numbers
        At least 1-d; same shape and dtype on all ranks.
    name : str, optional
        As for :func:`allreduce`.
    op : optional
        ``Average`` (default) or ``Sum``.

    Returns
    -------
    numpy.ndarray
        This rank's rows. Rank 0 gets the first; where rows cannot be shared equally, the first ranks get one
        more.

    Examples
    --------
    >>> import hora.keras as hvd
    >>> hvd.init()
    >>> hvd.reducescatter([1.0] * hvd.size())
    array([1.])
    """
    return collectives.reducescatter(evaluated(value), name=name, op=op)


def broadcast_global_variables(root_rank: int) -> NoReturn:
    """Refuse: Keras 3 has no collection of global variables.

    Examples
    --------
    >>> import hora.keras as hvd
    >>> hvd.broadcast_global_variables(0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    RuntimeError: Keras 3 has no global variables; ...
    """
    raise RuntimeError(
        "Keras 3 has no global variables; give model.fit the callback "
        "hvd.callbacks.BroadcastGlobalVariablesCallback, or broadcast model.variables and "
        "model.optimizer.variables"
    )


def evaluated(value: Value) -> np.ndarray[Any, Any]:
    """Return a value as an array."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if keras.ops.is_tensor(value) or isinstance(value, keras.Variable):
        return np.asarray(keras.ops.convert_to_numpy(value))
    return np.asarray(value)
