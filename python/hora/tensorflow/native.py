"""The kernels of ``libhora_tensorflow.so``: asynchronous, so that no thread of TensorFlow waits in one."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps
from tensorflow.python.util import tf_stack

from hora import _core
from hora.tensorflow.call import Tensor, Terms, graph_label

__all__ = ["NativeKernels", "problem"]

COLLECTIVES = frozenset(
    f"Hora{op}" for op in ("Allreduce", "Allgather", "Broadcast", "Alltoall", "Reducescatter")
)
LIBRARY = Path(__file__).parents[1] / "libhora_tensorflow.so"


@functools.cache
def load() -> tuple[Any, str | None]:
    """Return the ops, or why there are none."""
    try:
        ops = tf.load_op_library(str(LIBRARY))
    except (tf.errors.OpError, OSError) as error:
        return None, str(error)
    let_run_beside_each_other()
    reason = ctypes.CDLL(str(LIBRARY)).hora_tensorflow_problem
    reason.restype = ctypes.c_char_p
    text = reason().decode()
    return (None, text) if text else (ops, None)


def let_run_beside_each_other() -> None:
    """Tell TensorFlow that the ops need no order among themselves.

    Inside a ``tf.function`` every stateful op otherwise waits for the one before it in the program. Where
    TensorFlow does not have this list any more, they go on doing so, which is correct, but slow.
    """
    listed = "MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS"
    known = getattr(auto_control_deps, listed, None)
    if isinstance(known, frozenset):
        setattr(auto_control_deps, listed, known | COLLECTIVES)


def problem() -> str | None:
    """Return why the kernels cannot be used, or None."""
    return load()[1]


def caller() -> str:
    """Return file and line of the program that makes this call, or nothing.

    AutoGraph runs copies of functions, of which TensorFlow knows the lines in the program.
    """
    if tf.executing_eagerly():
        return _core.caller()
    frames = reversed(tf_stack.extract_stack())
    places = (_core.describe_place(frame.filename, frame.lineno) for frame in frames)
    return next(filter(None, places), "")


def naming(terms: Terms) -> dict[str, Any]:
    """Return the attributes that tell which calls belong together, and where this one is made."""
    common = {"process_set": terms.process_set, "name": terms.node, "caller": caller()}
    if tf.executing_eagerly():
        return {**common, "tensor_name": terms.name or "", "adds_node_name": False, "waits": True}
    return {
        **common,
        "tensor_name": graph_label() if terms.name is None else terms.name,
        "adds_node_name": terms.name is None,
        "waits": False,
    }


def reducing(terms: Terms) -> dict[str, Any]:
    """Return the attributes of a reduction; TensorFlow's have no double, so factors are written out."""
    return {
        "reduce_op": int(terms.reduction),
        "prescale": repr(terms.prescale),
        "postscale": repr(terms.postscale),
    }


def with_rows_unknown(result: Tensor, tensor: Tensor) -> Tensor:
    """Return a result of which a graph knows all extents but the first."""
    if not tf.executing_eagerly() and tensor.shape.rank:
        result.set_shape([None, *tensor.shape[1:]])
    return result


def with_shape(result: Tensor, shape: list[int | None]) -> Tensor:
    """Return a result whose shape a graph does not find by itself."""
    if not tf.executing_eagerly():
        result.set_shape(shape)
    return result


class NativeKernels:
    """See :class:`~hora.tensorflow.call.Kernels`."""

    def __init__(self) -> None:
        self._ops = load()[0]

    def allreduce(self, tensors: list[Tensor], terms: Terms) -> list[Tensor]:
        """Reduce each tensor."""
        results = self._ops.hora_allreduce(
            tensors=tensors, patience_us=terms.patience_us, **reducing(terms), **naming(terms)
        )
        return list(results)

    def allgather(self, tensors: list[Tensor], terms: Terms) -> tuple[list[Tensor], Tensor]:
        """Concatenate rows."""
        results, rows = self._ops.hora_allgather(tensors=tensors, **naming(terms))
        gathered = [with_rows_unknown(*pair) for pair in zip(results, tensors, strict=True)]
        return gathered, with_shape(rows, [len(tensors), None])

    def broadcast(self, tensors: list[Tensor], terms: Terms) -> list[Tensor]:
        """Copy the root's tensors."""
        return list(self._ops.hora_broadcast(tensors=tensors, root_rank=terms.root, **naming(terms)))

    def alltoall(self, tensor: Tensor, splits: Tensor, terms: Terms) -> tuple[Tensor, Tensor]:
        """Exchange rows."""
        result, received = self._ops.hora_alltoall(tensor=tensor, splits=splits, **naming(terms))
        return with_rows_unknown(result, tensor), with_shape(received, [None])

    def reducescatter(self, tensors: list[Tensor], terms: Terms) -> list[Tensor]:
        """Reduce each tensor and return this rank's rows."""
        results = self._ops.hora_reducescatter(tensors=tensors, **reducing(terms), **naming(terms))
        return [with_rows_unknown(*pair) for pair in zip(results, tensors, strict=True)]

    def join(self) -> Tensor:
        """Wait until all ranks have joined."""
        return with_shape(self._ops.hora_join(waits=tf.executing_eagerly()), [])

    def world(self, number: str, process_set: int) -> Tensor:
        """Return a number of the job."""
        return with_shape(self._ops.hora_world(number=number, process_set=process_set), [])
