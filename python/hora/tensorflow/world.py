"""Numbers of the job as nodes of a graph, which tell them when the graph runs."""

from __future__ import annotations

import tensorflow as tf

from hora.tensorflow.call import Tensor, kernels

__all__ = ["local_rank_op", "local_size_op", "process_set_included_op", "rank_op", "size_op"]


def number(which: str, process_set_id: int, name: str | None) -> Tensor:
    """Return one of the numbers, as int32."""
    return tf.cast(kernels().world(which, process_set_id), tf.int32, name=name)


def size_op(process_set_id: int = 0, name: str | None = None) -> Tensor:
    """Return the number of ranks in a process set.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> int(hvd.size_op()) == hvd.size()
    True
    """
    return number("size", process_set_id, name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Tensor:
    """Return 1 where this rank belongs to a process set, otherwise 0.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> int(hvd.process_set_included_op())
    1
    """
    return number("included", process_set_id, name)


def rank_op(name: str | None = None) -> Tensor:
    """Return this process's rank.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> int(hvd.rank_op()) == hvd.rank()
    True
    """
    return number("rank", 0, name)


def local_rank_op(name: str | None = None) -> Tensor:
    """Return this process's rank among those of its host.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> int(hvd.local_rank_op()) == hvd.local_rank()
    True
    """
    return number("local_rank", 0, name)


def local_size_op(name: str | None = None) -> Tensor:
    """Return the number of ranks of this host.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> int(hvd.local_size_op()) == hvd.local_size()
    True
    """
    return number("local_size", 0, name)
