"""How a call of a collective begins: checks, and what is told to the other ranks when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from hora import _core
from hora._arguments import check_name
from hora._calls import refuse
from hora.process_sets import ProcessSet
from hora.tensorflow.call import Tensor, check_dtype

__all__ = ["checked", "list_of", "read_splits", "record", "tensors_of", "to_tensor"]


@contextmanager
def checked(op: str, name: str | None, process_set: ProcessSet | None) -> Iterator[None]:
    """Look at a call's arguments: what is raised inside also fails the call on the other ranks.

    While a graph is built no rank waits yet, so nothing is told.
    """
    try:
        check_name(name)
        yield
    except Exception as error:
        if tf.executing_eagerly():
            refuse(_core.OPS[op], name, error, process_set)
        raise


def to_tensor(value: object) -> Tensor:
    """Return a tensor of what TensorFlow accepts as one; refuse a dtype that cannot be sent."""
    return check_dtype(tf.convert_to_tensor(value))


def list_of(values: Iterable[object]) -> list[Any]:
    """Return the elements of a grouped call."""
    if hasattr(values, "shape"):
        raise TypeError("a grouped call takes a list of tensors, not one tensor")
    elements = list(values)
    if not elements:
        raise ValueError("a grouped call needs at least one tensor")
    return elements


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


def read_splits(splits: Any, tensor: Tensor, members: int) -> Tensor:
    """Return how many rows each of the members is sent; without ``splits`` all get equally many."""
    if splits is None:
        rows = tf.shape(tensor, out_type=tf.int64)
        return tf.fill([members], rows[0] // members if tensor.shape.rank != 0 else tf.constant(0, tf.int64))
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
    are of floating point, and their numbers.
    """

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
