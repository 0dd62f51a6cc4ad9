"""How a call of a collective begins: checks, and what is told to the other ranks when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from hora import _arguments, _core
from hora._arguments import check_name
from hora._calls import refuse
from hora.process_sets import ProcessSet
from hora.tensorflow.call import Tensor, check_dtype

__all__ = ["checked", "list_of", "read_splits", "record", "tensors_of", "to_tensor"]


class checked:
    """Look at a call's arguments: what is raised inside also fails the call on the other ranks.

    While a graph is built no rank waits yet, so nothing is told, and Hora need not be initialised.
    """

    # No context manager of contextlib, whose frames an error would name as the place of the call.

    def __init__(self, op: str, name: str | None, process_set: ProcessSet | None) -> None:
        self._call = (_core.OPS[op], name, process_set)

    def __enter__(self) -> None:
        if tf.executing_eagerly():
            _core.size()
        try:
            check_name(self._call[1])
        except TypeError as error:
            self.tell(error)
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            self.tell(error)

    def tell(self, error: Exception) -> None:
        """Tell the other ranks."""
        op, name, process_set = self._call
        if tf.executing_eagerly():
            refuse(op, name, error, process_set)


def to_tensor(value: object) -> Tensor:
    """Return a tensor of what TensorFlow accepts as one; refuse a dtype that cannot be sent."""
    return check_dtype(tf.convert_to_tensor(value))


def list_of(values: Iterable[object]) -> list[Any]:
    """Return the elements of a grouped call."""
    if hasattr(values, "shape"):
        raise TypeError("a grouped call takes a list of tensors, not one tensor")
    return list(values)


def tensors_of(values: list[Any]) -> list[Tensor]:
    """Return the elements as tensors; an error says which of several is wrong."""
    tensors = []
    for number, value in enumerate(values):
        try:
            tensors.append(to_tensor(value))
        except (TypeError, ValueError) as error:
            if len(values) > 1:
                error.args = (f"tensor {number} of {len(values)}: {error}",)
            raise
    return tensors


def read_splits(splits: Any, tensor: Tensor, process_set: int) -> Tensor:
    """Return how many rows each member of a process set is sent; without ``splits`` all get equally many."""
    if splits is None:
        known = tensor.shape.rank is not None
        rows = (tensor.shape[0] if tensor.shape.rank else 0) if known else None
        if rows is not None:
            return tf.constant(_arguments.read_splits(None, rows, process_set), tf.int64)
        members = len(_core.process_set_ranks(process_set))
        return tf.fill([members], tf.shape(tensor, out_type=tf.int64)[0] // members)
    shares = tf.convert_to_tensor(splits)
    if not shares.dtype.is_integer or shares.shape.rank not in (None, 1):
        raise ValueError(f"splits must be a 1-d tensor or list of integers, not {splits!r}")
    return tf.cast(shares, tf.int64)


def record(
    tensors: list[Tensor],
    forward: Callable[[list[Tensor]], list[Tensor]],
    backward: Callable[[list[Tensor], list[int]], list[Tensor]],
) -> list[Tensor]:
    """Run a collective as one operation that TensorFlow can differentiate.

    ``forward`` returns as many results as there are tensors. ``backward`` gets the gradients of those that
    are of floating point, and their numbers. Without tensors there is nothing to run.
    """
    if not tensors:
        return []

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def recorded(*inputs: Tensor) -> tuple[list[Tensor], Callable[..., list[Tensor | None]]]:
        def gradient(*upstream: Tensor) -> list[Tensor | None]:
            numbers = [number for number, each in enumerate(inputs) if each.dtype.is_floating]
            gradients: list[Tensor | None] = [None] * len(inputs)
            dense = [tf.convert_to_tensor(upstream[number]) for number in numbers]
            for number, value in zip(numbers, backward(dense, numbers), strict=True):
                gradients[number] = value
            return gradients

        return forward(list(inputs)), gradient

    return list(recorded(*tensors))
