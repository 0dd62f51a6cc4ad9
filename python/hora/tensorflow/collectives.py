"""Collectives that move TensorFlow's tensors, as exported by ``hora.tensorflow``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from hora._arguments import set_id
from hora.process_sets import ProcessSet, global_process_set
from hora.tensorflow import operations
from hora.tensorflow.call import Tensor, Terms, kernels
from hora.tensorflow.calls import checked, list_of, read_splits, tensors_of, to_tensor

__all__ = ["allgather", "alltoall", "broadcast", "broadcast_", "grouped_allgather", "join"]


def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Concatenate the ranks' tensors along their first dimension, in the order of ranks.

    Parameters
    ----------
    tensor : tf.Tensor, tf.Variable or what TensorFlow converts
        At least 1-d. The first dimension may differ between ranks and may be 0; dtype and the other
        dimensions are the same on all.
    name, ignore_name_scope, process_set
        As for :func:`allreduce`.

    Raises
    ------
    ValueError, TypeError
        For an argument that this rank refuses.
    tf.errors.FailedPreconditionError
        On all ranks, when dtypes or dimensions but the first differ, or a tensor is 0-d.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> hvd.allgather(tf.zeros((2, 3))).shape == (2 * hvd.size(), 3)
    True
    """
    with checked("allgather", name, process_set):
        tensors = [to_tensor(tensor)]
        terms = Terms(name, set_id(process_set))
    return operations.allgather(tensors, terms)[0]


def grouped_allgather(
    tensors: Iterable[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Concatenate the ranks' tensors along their first dimension, several at once.

    Parameters
    ----------
    tensors : iterable
        As many, and in the same order, on all ranks; each as for :func:`allgather`.
    name, ignore_name_scope, process_set
        As for :func:`allreduce`.

    Returns
    -------
    list
        The results in the order of the tensors.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> first, second = hvd.grouped_allgather([tf.zeros((2, 3)), tf.zeros(1)])
    >>> first.shape == (2 * hvd.size(), 3)
    True
    """
    with checked("allgather", name, process_set):
        group = tensors_of(list_of(tensors))
        terms = Terms(name, set_id(process_set))
    return operations.allgather(group, terms)


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Copy the root's tensor to all ranks, into a new one of the same shape and dtype.

    Parameters
    ----------
    tensor : tf.Tensor, tf.Variable or what TensorFlow converts
        Same shape and dtype on all ranks; the values of others than the root do not matter.
    root_rank : int
        Whose values all ranks get.
    name, ignore_name_scope, process_set
        As for :func:`allreduce`.

    Raises
    ------
    ValueError, TypeError
        For an argument that this rank refuses.
    tf.errors.FailedPreconditionError
        On all ranks, when dtypes, shapes or ``root_rank`` differ between them.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> hvd.broadcast(tf.range(3), root_rank=0).numpy().tolist()
    [0, 1, 2]
    """
    with checked("broadcast", name, process_set):
        tensors = [to_tensor(tensor)]
        terms = Terms(name, set_id(process_set), root=int(root_rank))
    return operations.broadcast(tensors, terms)[0]


def broadcast_(
    variables: Iterable[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Overwrite variables with the root's values, all in one operation, and return them.

    No gradient is recorded.

    Parameters
    ----------
    variables : iterable of tf.Variable
        As many, and in the same order, on all ranks, with the same shapes and dtypes.
    root_rank : int
        Whose values all ranks get.
    name, process_set
        As for :func:`allreduce`.

    Raises
    ------
    ValueError, TypeError
        For an argument that this rank refuses.
    tf.errors.FailedPreconditionError
        On all ranks, when dtypes, shapes or ``root_rank`` differ between them.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> counter = tf.Variable(7)
    >>> hvd.broadcast_([counter], root_rank=0)[0].numpy().item()
    7
    """
    with checked("broadcast", name, process_set):
        targets = list_of(variables)
        if not targets:
            raise ValueError("broadcast_ needs at least one variable")
        for each in targets:
            if not hasattr(each, "assign"):
                raise TypeError(f"broadcast_ takes variables, not {type(each).__name__}")
        tensors = tensors_of(targets)
        terms = Terms(name, set_id(process_set), root=int(root_rank))
    for each, value in zip(targets, kernels().broadcast(tensors, terms), strict=True):
        each.assign(value)
    return targets


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor | tuple[Tensor, Tensor]:
    """Send some rows of a tensor to every rank, and concatenate the rows that come from every rank.

    Parameters
    ----------
    tensor : tf.Tensor, tf.Variable or what TensorFlow converts
        At least 1-d. The first dimension may differ between ranks and may be 0; dtype and the other
        dimensions are the same on all.
    splits : 1-d tensor or list of int, optional
        How many rows go to each rank, in the order of ranks; zeros are allowed. They add up to the number of
        rows. Without it every rank gets equally many.
    name, ignore_name_scope, process_set
        As for :func:`allreduce`.

    Returns
    -------
    tensor or (tensor, tensor)
        The rows received, in the order of ranks. With ``splits`` also how many came from each rank, as
        int32.

    Raises
    ------
    ValueError, TypeError
        For an argument that this rank refuses.
    tf.errors.InvalidArgumentError
        For splits of a wrong length or sum.
    tf.errors.FailedPreconditionError
        On all ranks, when dtypes or dimensions but the first differ, or a tensor is 0-d.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> rows, received = hvd.alltoall(tf.ones((hvd.size(), 2)), splits=[1] * hvd.size())
    >>> rows.shape == (hvd.size(), 2) and received.numpy().tolist() == [1] * hvd.size()
    True
    """
    with checked("alltoall", name, process_set):
        rows = to_tensor(tensor)
        terms = Terms(name, set_id(process_set))
        shares = read_splits(splits, rows, terms.process_set)
    result, received = operations.alltoall(rows, shares, terms)
    return result if splits is None else (result, tf.cast(received, tf.int32))


def join() -> Tensor:
    """Wait until all ranks have called it, while those that still work go on without this one.

    See :func:`hora.join`.

    Returns
    -------
    tensor
        The rank that joined last, the same on all ranks.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> 0 <= int(hvd.join()) < hvd.size()
    True
    """
    return tf.cast(kernels().join(), tf.int32)
