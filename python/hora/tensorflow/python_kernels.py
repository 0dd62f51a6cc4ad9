"""Collectives without native kernels: each is a call into Python, in which a thread of TensorFlow waits.

In a graph they run one after the other, in the order of the program, which is the same on all ranks, so that
however few threads there are no two ranks wait in different ones.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from hora import _core
from hora._arguments import share_of_rows
from hora.errors import HorovodInternalError
from hora.tensorflow.call import Tensor, Terms, graph_label

__all__ = ["PythonKernels"]

#: The name of the last collective of each graph, after which the next may run.
_last: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

Array = Any


class PythonKernels:
    """See :class:`~hora.tensorflow.call.Kernels`."""

    def allreduce(self, tensors: list[Tensor], terms: Terms) -> list[Tensor]:
        """Reduce each tensor."""
        return like_inputs("allreduce", tensors, terms, [each.shape for each in tensors], same_shape)

    def broadcast(self, tensors: list[Tensor], terms: Terms) -> list[Tensor]:
        """Copy the root's tensors."""
        return like_inputs("broadcast", tensors, terms, [each.shape for each in tensors], same_shape)

    def reducescatter(self, tensors: list[Tensor], terms: Terms) -> list[Tensor]:
        """Reduce each tensor and return this rank's rows."""

        def own_rows(array: Array) -> tuple[int, ...]:
            if array.ndim == 0:
                raise ValueError("a scalar has no first dimension to scatter along")
            return (share_of_rows(array.shape[0], terms.process_set), *array.shape[1:])

        return like_inputs("reducescatter", tensors, terms, rows_unknown(tensors), own_rows)

    def allgather(self, tensors: list[Tensor], terms: Terms) -> tuple[list[Tensor], Tensor]:
        """Concatenate rows."""
        named = in_graph(terms)

        def run(*inputs: Tensor) -> list[Array]:
            results, rows = gathered("allgather", list(inputs), named, [])
            return [*results, np.array(rows, np.int64)]

        types = [each.dtype for each in tensors]
        results = call(run, tensors, [*types, tf.int64], [*rows_unknown(tensors), [len(tensors), None]])
        return results[:-1], results[-1]

    def alltoall(self, tensor: Tensor, splits: Tensor, terms: Terms) -> tuple[Tensor, Tensor]:
        """Exchange rows."""
        named = in_graph(terms)

        def run(rows: Tensor, shares: Tensor) -> list[Array]:
            results, received = gathered("alltoall", [rows], named, shares.numpy().tolist())
            return [results[0], np.array(received[0], np.int64)]

        result, received = call(
            run, [tensor, splits], [tensor.dtype, tf.int64], [*rows_unknown([tensor]), [None]]
        )
        return result, received

    def join(self) -> Tensor:
        """Wait until all ranks have joined."""

        def run() -> list[Array]:
            handle = _core.join()
            handle.wait()
            return [np.int64(handle.value())]

        return call(run, [], [tf.int64], [[]])[0]

    def world(self, number: str, process_set: int) -> Tensor:
        """Return a number of the job."""
        read: dict[str, Callable[[], int]] = {
            "rank": _core.rank,
            "local_rank": _core.local_rank,
            "local_size": _core.local_size,
            "size": lambda: len(_core.process_set_ranks(process_set)),
            "included": lambda: int(_core.rank() in _core.process_set_ranks(process_set)),
        }
        return call(lambda: [np.int64(read[number]())], [], [tf.int64], [[]])[0]


def same_shape(array: Array) -> tuple[int, ...]:
    """Return the shape of a result that is like its input."""
    return tuple(array.shape)


def rows_unknown(tensors: list[Tensor]) -> list[Any]:
    """Return the shapes of results, as far as a graph knows them."""
    return [[None, *each.shape[1:]] if each.shape.rank else None for each in tensors]


def in_graph(terms: Terms) -> Terms:
    """Return terms with a name where the collective is a node of a graph: other graphs may run beside it."""
    if terms.name is not None or tf.executing_eagerly():
        return terms
    node = tf.compat.v1.get_default_graph().unique_name(terms.node or "hora")
    return replace(terms, name=f"{graph_label()}/{node}")


def call(
    run: Callable[..., list[Array]], inputs: list[Tensor], types: list[Any], shapes: list[Any]
) -> list[Tensor]:
    """Run a function of tensors that returns arrays: now, or as a node of the graph, after the last one."""
    if tf.executing_eagerly():
        with errors_of_tensorflow():
            return [tf.constant(array) for array in run(*inputs)]
    graph = tf.compat.v1.get_default_graph()
    before = _last.get(graph)
    with tf.control_dependencies([] if before is None else [graph.get_operation_by_name(before)]):
        results = tf.py_function(run, inputs, types)
    _last[graph] = results[0].op.name
    for result, shape in zip(results, shapes, strict=True):
        result.set_shape(shape)
    return list(results)


@contextmanager
def errors_of_tensorflow() -> Iterator[None]:
    """Raise what native kernels raise in eager mode; in a graph TensorFlow makes its own of them."""
    try:
        yield
    except HorovodInternalError as error:
        try:
            _core.require_working()
        except HorovodInternalError:
            raise tf.errors.UnknownError(None, None, str(error)) from error
        raise tf.errors.FailedPreconditionError(None, None, str(error)) from error
    except ValueError as error:
        raise tf.errors.InvalidArgumentError(None, None, str(error)) from error


def like_inputs(
    op: str,
    tensors: list[Tensor],
    terms: Terms,
    shapes: list[Any],
    result_shape: Callable[[Array], tuple[int, ...]],
) -> list[Tensor]:
    """Run a collective whose results' shapes follow from those of its inputs."""
    named = in_graph(terms)

    def run(*inputs: Tensor) -> list[Array]:
        arrays = [contiguous(each) for each in inputs]
        results: list[Array | None]
        try:
            results = [np.empty(result_shape(array), array.dtype) for array in arrays]
        except ValueError as error:
            _core.refuse(_core.OPS[op], named.name, str(error), named.process_set)
            raise
        submit(op, arrays, results, named, []).wait()
        return results

    return call(run, tensors, [each.dtype for each in tensors], shapes)


def gathered(
    op: str, inputs: list[Tensor], terms: Terms, splits: list[int]
) -> tuple[list[Array], list[list[int]]]:
    """Run a collective that allocates its results; also return how many rows came from each rank."""
    arrays = [contiguous(each) for each in inputs]
    handle = submit(op, arrays, [None] * len(arrays), terms, splits)
    handle.wait()
    outputs = [handle.output(number) for number in range(len(arrays))]
    results = [
        np.ndarray(output.shape, array.dtype, buffer=memoryview(output) if math.prod(output.shape) else None)
        for output, array in zip(outputs, arrays, strict=True)
    ]
    return results, [output.sizes for output in outputs]


def contiguous(tensor: Tensor) -> Array:
    """Return the elements of a tensor in eager mode."""
    return np.ascontiguousarray(tensor.numpy()).reshape(tensor.shape)


def submit(
    op: str, arrays: list[Array], results: list[Array | None], terms: Terms, splits: list[int]
) -> _core.Handle:
    """Begin a call on arrays, whose dtypes may be ones that NumPy does not have by itself."""
    refs = [
        (
            array.ctypes.data,
            array.shape,
            _core.DTYPES[array.dtype.name],
            0 if result is None else result.ctypes.data,
        )
        for array, result in zip(arrays, results, strict=True)
    ]
    return _core.submit(
        _core.OPS[op],
        terms.name,
        refs,
        int(terms.reduction),
        terms.root,
        terms.prescale,
        terms.postscale,
        (arrays, results),
        terms.process_set,
        splits,
    )
