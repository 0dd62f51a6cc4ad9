"""Reductions of TensorFlow's tensors, as exported by ``hora.tensorflow``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from hora._arguments import Average, choose_op, set_id
from hora.compression import Compressions, Compressor, NoneCompressor
from hora.process_sets import ProcessSet, global_process_set
from hora.tensorflow import operations
from hora.tensorflow.adapter import TensorFlowCasts
from hora.tensorflow.call import Tensor, Terms
from hora.tensorflow.calls import checked, list_of, tensors_of
from hora.tensorflow.sparse import allreduce_slices, check_slices

__all__ = ["Compression", "allreduce", "grouped_allreduce", "grouped_reducescatter", "reducescatter"]

Compression = Compressions(TensorFlowCasts())


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = NoneCompressor,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Reduce a tensor over all ranks into a new one of the same shape and dtype.

    Inside a ``tf.function`` it runs beside the rest of the graph. It can be differentiated for ``Average``
    and ``Sum``: the gradient is reduced in the same way.

    Parameters
    ----------
    tensor : tf.Tensor, tf.Variable, tf.IndexedSlices or what TensorFlow converts
        Same shape and dtype on all ranks. Of ``tf.IndexedSlices`` those of all ranks are gathered, however
        many each has, after slices of one index were added up; only ``Average`` and ``Sum``, no factors.
    average : bool, optional
        Deprecated: True is ``op=Average``, False ``op=Sum``.
    device_dense, device_sparse : str
        Accepted as in Horovod; collectives run in host memory.
    compression : Compressor
        Converts the tensor before it is sent and the result back.
    op : optional
        ``Average`` (default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``, see
        :class:`hora.ReduceOp`.
    prescale_factor, postscale_factor : float
        Multiplied to the tensor before, to the result after the reduction.
    name : str, optional
        Which calls belong together; among what runs at the same time, each name once. Without it, calls in
        eager mode belong together by their order, and those inside a ``tf.function`` by their place in it.
    process_set : ProcessSet
        The ranks that take part, by default all.
    ignore_name_scope : bool
        Accepted as in Horovod; a ``name`` is always used as it is.

    Raises
    ------
    ValueError, TypeError
        For an argument that this rank refuses.
    tf.errors.InvalidArgumentError
        For one that is found wrong when the call runs.
    tf.errors.FailedPreconditionError
        On all ranks, when dtypes, shapes, ``op`` or factors differ between them.
    tf.errors.UnknownError
        On all ranks, when a rank left or was lost.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> hvd.allreduce(tf.constant([3.0, 3.0])).numpy()
    array([3., 3.], dtype=float32)
    """
    return reduce_all(
        lambda: [tensor], average, compression, op, prescale_factor, postscale_factor, process_set, name
    )[0]


def grouped_allreduce(
    tensors: Iterable[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = NoneCompressor,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Any]:
    """Reduce several tensors over all ranks into new ones, as one operation.

    Parameters
    ----------
    tensors : iterable
        As many, and in the same order, on all ranks; dtypes and shapes may differ within the list. Those that
        are ``tf.IndexedSlices`` are reduced one by one.
    average, device_dense, device_sparse, compression, op, prescale_factor, postscale_factor
        As for :func:`allreduce`, for every tensor.
    process_set, ignore_name_scope, name
        As for :func:`allreduce`.

    Returns
    -------
    list
        The results in the order of the tensors.

    Raises
    ------
    ValueError, TypeError
        For an argument that this rank refuses; then no tensor is reduced.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> [each.numpy().tolist() for each in hvd.grouped_allreduce([tf.ones(1), tf.zeros(2)])]
    [[1.0], [0.0, 0.0]]
    """
    return reduce_all(
        lambda: list_of(tensors),
        average,
        compression,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        name,
    )


def reduce_all(
    values: Callable[[], list[Any]],
    average: bool | None,
    compression: Compressor,
    op: int | None,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    name: str | None,
) -> list[Any]:
    """Reduce dense tensors in one operation and slices each in its own."""
    with checked("allreduce", name, process_set):
        inputs = values()
        terms = Terms(
            name,
            set_id(process_set),
            choose_op(average, op),
            float(prescale_factor),
            float(postscale_factor),
        )
        slices = {at: each for at, each in enumerate(inputs) if isinstance(each, tf.IndexedSlices)}
        for each in slices.values():
            check_slices(each, terms)
        dense = [at for at in range(len(inputs)) if at not in slices]
        pairs = [compression.compress(each) for each in tensors_of([inputs[at] for at in dense])]
    results: dict[int, Any] = {}
    reduced = operations.allreduce([sent for sent, _ in pairs], terms)
    for at, result, (_, context) in zip(dense, reduced, pairs, strict=True):
        results[at] = compression.decompress(result, context)
    for at, each in slices.items():
        part = terms.part(at) if len(inputs) > 1 else terms
        results[at] = allreduce_slices(each, part, compression)
    return [results[at] for at in range(len(inputs))]


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Compressor = NoneCompressor,
    op: int = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """Reduce a tensor over all ranks and give each some of the result's rows.

    Parameters
    ----------
    tensor : tf.Tensor, tf.Variable or what TensorFlow converts
        At least 1-d; same shape and dtype on all ranks.
    op : optional
        ``Average`` (default) or ``Sum``.
    device_dense, compression, name, process_set, ignore_name_scope, prescale_factor, postscale_factor
        As for :func:`allreduce`.

    Returns
    -------
    tensor
        This rank's rows. Rank 0 gets the first; where rows cannot be shared equally, the first ranks get
        one more.

    Raises
    ------
    ValueError, TypeError
        For an argument that this rank refuses.
    tf.errors.FailedPreconditionError
        On all ranks, for another ``op``, or when dtypes, shapes, ``op`` or factors differ between them.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> hvd.reducescatter(tf.ones((2 * hvd.size(), 3))).shape.as_list()
    [2, 3]
    """
    return scatter_all(
        lambda: [tensor], compression, op, process_set, prescale_factor, postscale_factor, name
    )[0]


def grouped_reducescatter(
    tensors: Iterable[Any],
    device_dense: str = "",
    compression: Compressor = NoneCompressor,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
) -> list[Tensor]:
    """Reduce several tensors over all ranks and give each rank some rows of every result.

    Parameters
    ----------
    tensors : iterable
        As many, and in the same order, on all ranks; each as for :func:`reducescatter`.
    device_dense, compression, op, process_set, prescale_factor, postscale_factor, name
        As for :func:`reducescatter`, for every tensor.

    Returns
    -------
    list
        This rank's rows of every tensor, in the order of the tensors.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> results = hvd.grouped_reducescatter([tf.ones((hvd.size(), 3)), tf.ones(hvd.size())])
    >>> [result.shape.as_list() for result in results]
    [[1, 3], [1]]
    """
    return scatter_all(
        lambda: list_of(tensors), compression, op, process_set, prescale_factor, postscale_factor, name
    )


def scatter_all(
    values: Callable[[], list[Any]],
    compression: Compressor,
    op: int,
    process_set: ProcessSet,
    prescale_factor: float,
    postscale_factor: float,
    name: str | None,
) -> list[Tensor]:
    """Reduce and scatter the tensors in one operation."""
    with checked("reducescatter", name, process_set):
        tensors = tensors_of(values())
        if any(each.shape.rank == 0 for each in tensors):
            raise ValueError("a scalar has no first dimension to scatter along")
        pairs = [compression.compress(each) for each in tensors]
        terms = Terms(
            name, set_id(process_set), choose_op(None, op), float(prescale_factor), float(postscale_factor)
        )
    results = operations.reducescatter([sent for sent, _ in pairs], terms)
    return [
        compression.decompress(result, context) for result, (_, context) in zip(results, pairs, strict=True)
    ]
