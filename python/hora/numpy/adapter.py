"""NumPy arrays as seen by the collectives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hora import _core
from hora._adapter import Ref

__all__ = ["Array", "NumpyAdapter", "dtype_code"]

Array = np.ndarray[Any, np.dtype[Any]]

_CODES = {np.dtype(name): code for name, code in _core.DTYPES.items() if name != "bfloat16"}

_core.register_tensor_type(np.ndarray)


def dtype_code(dtype: np.dtype[Any]) -> int:
    """Return the code of a dtype; bfloat16 exists where the package ml_dtypes does."""
    code = _CODES.get(dtype)
    if code is None and dtype.name == "bfloat16":
        return _core.DTYPES["bfloat16"]
    if code is None:
        raise ValueError(f"arrays of dtype {dtype} are not supported, only {', '.join(_core.DTYPES)}")
    return code


def require_array(value: object) -> Array:
    """Return an array, or a NumPy scalar as a 0-d one; anything else is refused."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    raise TypeError(f"expected a NumPy array, not {type(value).__name__}")


def has_repeated_elements(array: Array) -> bool:
    """Return whether one memory place is several elements, as in a broadcast array."""
    return any(array.strides[axis] == 0 and length > 1 for axis, length in enumerate(array.shape))


class NumpyAdapter:
    """Adapter of NumPy; NumPy scalars are 0-d arrays."""

    def contiguous(self, tensor: Array, writable: bool = False) -> Array:
        """Return the array itself, or a C-contiguous and aligned copy."""
        array = require_array(tensor)
        flags = array.flags
        if writable and (array is not tensor or not flags.writeable):
            raise ValueError("the array is read-only, no in-place result can be written to it")
        if flags.c_contiguous and flags.aligned:
            return array
        if writable and has_repeated_elements(array):
            raise ValueError("elements of the array share memory, no in-place result can be written to it")
        copy: Array = array.copy(order="C")
        return copy

    def to_ref(self, tensor: Array) -> Ref:
        """Describe the memory of a contiguous array."""
        return tensor.ctypes.data, tensor.shape, dtype_code(tensor.dtype)

    def device(self, tensor: Array) -> int:
        """Return that it is host memory."""
        return -1

    def stream(self, device: int) -> int:
        """Return the default stream; NumPy has no GPUs."""
        return 0

    def address(self, tensor: Array) -> int:
        """Return where the array's memory begins."""
        return tensor.ctypes.data

    def empty_like(self, tensor: Array) -> Array:
        """Return a new array, not filled."""
        return np.empty(tensor.shape, tensor.dtype)

    def zeros_like(self, tensor: Array) -> Array:
        """Return a new array of zeros."""
        return np.zeros(tensor.shape, tensor.dtype)

    def empty_rows(self, tensor: Array, rows: int) -> Array:
        """Return a new array of another number of rows, not filled."""
        return np.empty((rows, *tensor.shape[1:]), tensor.dtype)

    def integers(self, values: list[int]) -> Array:
        """Return a new 1-d array of int32."""
        return np.array(values, np.int32)

    def scaled(self, tensor: Array, factor: float) -> Array:
        """Return the array multiplied by a factor."""
        result: Array = tensor * factor
        return result

    def rows(self, tensor: Array, start: int, stop: int) -> Array:
        """Return a part of the first dimension."""
        part: Array = tensor[start:stop]
        return part

    def copy_into(self, target: Array, source: Array) -> None:
        """Copy values, keeping the target's strides."""
        target[...] = source

    def from_output(self, output: _core.Output, like: Array) -> Array:
        """Wrap memory of the core."""
        array: Array = np.ndarray(output.shape, like.dtype, buffer=memoryview(output))
        return array

    def dtype_name(self, tensor: Array) -> str:
        """Return NumPy's name of the dtype."""
        return str(tensor.dtype.name)

    def cast(self, tensor: Array, dtype: str) -> Array:
        """Convert to another dtype."""
        try:
            target = np.dtype(dtype)
        except TypeError as error:
            raise ValueError(f"NumPy has no dtype {dtype}") from error
        converted: Array = tensor.astype(target)
        return converted

    def differentiable(self, tensor: Array) -> bool:
        """Return False: NumPy records nothing."""
        return False

    def record(
        self,
        tensors: list[Array],
        forward: Callable[[list[Array]], list[Array]],
        backward: Callable[[list[Array]], list[Array]],
    ) -> list[Array]:
        """Run without recording."""
        return forward(tensors)
