"""Giving all ranks the root's variables and objects."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from hora import _core, _objects
from hora._arguments import callers_level, set_id
from hora._calls import refuse
from hora.process_sets import ProcessSet, global_process_set
from hora.tensorflow.collectives import broadcast_

__all__ = ["allgather_object", "broadcast_object", "broadcast_object_fn", "broadcast_variables"]


def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> None:
    """Overwrite variables with the root's; call it once they exist, for a model after its first step.

    Where there are no variables yet, a warning says so, and the other ranks' call fails if they have some.

    Parameters
    ----------
    variables : iterable of tf.Variable
        As many, and in the same order, on all ranks, with the same shapes and dtypes.
    root_rank : int
        Whose values all ranks get.
    process_set : ProcessSet
        The ranks that take part, by default all.
    inplace : bool
        Accepted as in Horovod.

    Raises
    ------
    ValueError, TypeError
        For an argument that this rank refuses.
    tf.errors.FailedPreconditionError
        On all ranks, when their variables differ.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> hvd.broadcast_variables([tf.Variable(1.0), tf.Variable([2])], root_rank=0)
    """
    targets = list(variables)
    if targets:
        broadcast_(targets, root_rank, process_set=process_set)
        return
    set_id(process_set)
    problem = "broadcast_variables: there are no variables yet; build the model and take a step before"
    if tf.executing_eagerly():
        refuse(_core.OPS["broadcast"], None, ValueError(problem), process_set)
    warnings.warn(problem, RuntimeWarning, stacklevel=callers_level())


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send the root's object to all ranks; see :func:`hora.broadcast_object`.

    Parameters
    ----------
    obj : object
        Anything that cloudpickle accepts; looked at on the root only.
    root_rank : int
        Whose object all ranks get.
    session
        Must be None: TensorFlow 2 has no sessions.
    name : str, optional
        Which calls belong together.
    process_set : ProcessSet
        The ranks that take part, by default all.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> hvd.broadcast_object({"epoch": 3} if hvd.rank() == 0 else None)
    {'epoch': 3}
    """
    refuse_session(session)
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """Return a function of one object that does what :func:`broadcast_object` does.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> hvd.broadcast_object_fn()(5)
    5
    """
    refuse_session(session)
    return lambda obj: broadcast_object(obj, root_rank, None, name, process_set)


def allgather_object(
    obj: Any, session: None = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Collect one object from every rank; see :func:`hora.allgather_object`.

    Parameters
    ----------
    obj : object
        Anything that cloudpickle accepts.
    session
        Must be None: TensorFlow 2 has no sessions.
    name : str, optional
        Which calls belong together.
    process_set : ProcessSet
        The ranks that take part, by default all.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))
    True
    """
    refuse_session(session)
    return _objects.allgather_object(obj, name, process_set)


def refuse_session(session: object) -> None:
    """Refuse a session of TensorFlow 1."""
    if session is not None:
        raise ValueError("TensorFlow 2 has no sessions; leave out the argument session")
