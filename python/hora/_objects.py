"""Collectives for any Python object that can be pickled.

An object travels as a byte array whose first byte says whether it could be pickled; if not, the text of the
error follows, so that all ranks raise. With a ``name`` each inner step has a name of its own that tells which
function it belongs to, so that steps of different functions can never be taken for each other.
"""

from __future__ import annotations

import operator
import pickle
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from hora import _core
from hora._arguments import check_name, set_id
from hora._calls import refuse
from hora._handle import synchronize
from hora._ops import Collectives
from hora.numpy.adapter import Array, NumpyAdapter
from hora.process_sets import ProcessSet, global_process_set

__all__ = ["allgather_by_rank", "allgather_object", "broadcast_object"]

_collectives = Collectives(NumpyAdapter())

_PICKLED, _ERROR = 0, 1


def to_bytes(obj: object) -> tuple[Array, Exception | None]:
    """Pickle an object, or the text of the error that came of it."""
    failure = None
    try:
        marker, payload = _PICKLED, cloudpickle.dumps(obj)
    except Exception as error:
        marker, payload, failure = _ERROR, f"{type(error).__name__}: {error}".encode(), error
    message = np.empty(1 + len(payload), np.uint8)
    message[0] = marker
    message[1:] = np.frombuffer(payload, np.uint8)
    return message, failure


def from_bytes(message: Array, rank: int, failure: Exception | None) -> Any:
    """Return the object that ``rank`` sent, or raise its error."""
    payload = message[1:].data
    if message[0] == _ERROR:
        raise ValueError(f"rank {rank} cannot pickle its object: {bytes(payload).decode()}") from failure
    return pickle.loads(payload)


def step_name(name: str | None, step: str) -> str | None:
    """Return the name of an inner step; the steps of unnamed calls are unnamed."""
    return None if name is None else f"{name}/{step}"


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send the root's object to all ranks.

    Parameters
    ----------
    obj : object
        Anything that cloudpickle accepts; looked at on the root only, so others may pass None.
    root_rank : int
        Whose object all ranks get.
    name : str, optional
        Which calls belong together.
    process_set : ProcessSet
        The ranks that take part, by default all.

    Returns
    -------
    object
        On the root the object itself, elsewhere a copy of it.

    Raises
    ------
    ValueError
        On all ranks, when the root's object cannot be pickled.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.broadcast_object({"epoch": 3} if hora.rank() == 0 else None)
    {'epoch': 3}
    """
    try:
        check_name(name)
        set_id(process_set)
        root = operator.index(root_rank)
    except Exception as error:
        refuse(_core.OPS["broadcast"], name, error, process_set)
        raise
    is_root = _core.rank() == root
    message, failure = to_bytes(obj) if is_root else (np.empty(0, np.uint8), None)
    length = np.array(len(message), np.int64)
    _collectives.broadcast_(length, root, step_name(name, "broadcast_object.length"), process_set)
    if not is_root:
        message = np.empty(int(length), np.uint8)
    _collectives.broadcast_(message, root, step_name(name, "broadcast_object.bytes"), process_set)
    return obj if is_root and failure is None else from_bytes(message, root, failure)


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Collect one object from every rank.

    Parameters
    ----------
    obj : object
        Anything that cloudpickle accepts.
    name : str, optional
        Which calls belong together.
    process_set : ProcessSet
        The ranks that take part, by default all.

    Returns
    -------
    list
        The objects in the order of ranks, the own one as a copy too; none from ranks that have joined.

    Raises
    ------
    ValueError
        On all ranks, when some rank's object cannot be pickled.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.allgather_object(hora.rank()) == list(range(hora.size()))
    True
    """
    return list(allgather_by_rank(obj, name, process_set).values())


def allgather_by_rank(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> dict[int, Any]:
    """Do what :func:`allgather_object` does, and tell which rank each object came from."""
    try:
        check_name(name)
        members = _core.process_set_ranks(set_id(process_set))
    except Exception as error:
        refuse(_core.OPS["allgather"], name, error, process_set)
        raise
    message, failure = to_bytes(obj)
    step = step_name(name, "allgather_object.bytes")
    handle = _collectives.start_allgather(message, step, process_set)
    messages = np.split(synchronize(handle), np.cumsum(handle.sizes)[:-1])
    own = _core.rank()
    return {
        rank: from_bytes(each, rank, failure if rank == own else None)
        for rank, each in zip(members, messages, strict=True)
        if len(each) > 0  # a rank that has joined sends nothing
    }
