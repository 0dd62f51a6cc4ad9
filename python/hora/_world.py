"""Starting and ending hora, and the ranks of the job."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from hora import _core
from hora._exit import process_exit
from hora._libraries import free_gpu_memory, library_folders
from hora._main_thread import main_thread
from hora._objects import allgather_object
from hora.process_sets import ProcessSet, add_process_set, forget_process_sets, global_process_set

__all__ = [
    "cross_rank",
    "cross_size",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "session_number",
    "shutdown",
    "size",
]

_starts = 0


def init(comm: Any = None, process_sets: str | Iterable[ProcessSet | Iterable[int]] | None = None) -> None:
    """Start hora in this process, together with all other ranks of the job.

    Calling it again while hora runs does nothing but add process sets; after :func:`shutdown` it starts anew.

    Parameters
    ----------
    comm : list of int or mpi4py communicator, optional
        The processes of the job, if not all that were launched: their ranks among these, or a communicator of
        them. Only they call ``init``; they are numbered as in the list or the communicator.
    process_sets : iterable of ProcessSet or of lists of ranks, optional
        Sets to add, the same on all ranks. Those made from communicators may differ between ranks, such as
        the parts of a ``Split``; they need a communicator as ``comm``. ``"dynamic"`` is accepted and changes
        nothing: sets can be added at any time.

    Raises
    ------
    ValueError
        If ``comm`` does not have this process, a process set is given twice or has ranks that do not exist,
        or an ``HORA_*`` setting is wrong.
    NotImplementedError
        For a process set made from a communicator when ``comm`` is none.
    RuntimeError
        If the ranks cannot be connected; the message says why and what cures it.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.is_initialized()
    True
    """
    sets = sets_to_add(process_sets)
    if any(each.mpi_comm is not None for each in sets) and not hasattr(comm, "py2f"):
        raise NotImplementedError("init: a ProcessSet made from a communicator needs a communicator as comm")
    is_start = not _core.is_initialized()
    if is_start:
        forget_process_sets()
    process_exit.arm()
    _core.init(*scope_of(comm), library_folders(), free_gpu_memory, main_thread())
    process_exit.started()
    if is_start:
        count_start()
    try:
        for process_set in sets:
            if process_set.process_set_id is not None:
                continue
            if process_set.mpi_comm is None:
                add_process_set(process_set)
            else:
                process_set.find_ranks(comm)
                add_parts(process_set)
    except BaseException:
        if is_start:
            shutdown()
        raise


def count_start() -> None:
    """Give the session that begins a number."""
    global _starts
    _starts += 1


def session_number() -> int:
    """Return how often hora has been started: what was agreed in one session does not hold in the next."""
    return _starts


def scope_of(comm: Any) -> tuple[list[int], int | None]:
    """Return ``comm`` as the core takes it: ranks, or the handle of a communicator."""
    if comm is None:
        return [], None
    if hasattr(comm, "py2f"):
        return [], comm.py2f()
    try:
        ranks = [operator.index(rank) for rank in comm]
    except TypeError as error:
        raise ValueError(f"init: comm must be a list of ranks or a communicator, not {comm!r}") from error
    if not ranks:
        raise ValueError("init: comm is an empty list")
    return ranks, None


def add_parts(process_set: ProcessSet) -> None:
    """Add the sets that ranks have made from their communicators; each rank's object gets its own one."""
    for ranks in dict.fromkeys(map(tuple, allgather_object(process_set.ranks))):
        add_process_set(process_set if list(ranks) == process_set.ranks else ProcessSet(ranks))


def sets_to_add(process_sets: str | Iterable[ProcessSet | Iterable[int]] | None) -> list[ProcessSet]:
    """Return the sets that ``init`` was given; ``ValueError`` where two have the same ranks."""
    if process_sets is None or process_sets == "dynamic":
        return []
    if isinstance(process_sets, str):
        raise ValueError(f"init: process_sets must be a list of sets or 'dynamic', not {process_sets!r}")
    sets = [each if isinstance(each, ProcessSet) else ProcessSet(each) for each in process_sets]
    ranks = [each.ranks for each in sets if each is not global_process_set and each.mpi_comm is None]
    for each in ranks:
        if ranks.count(each) > 1:
            raise ValueError(f"init: process_sets has a set of the ranks {each} more than once")
    return sets


def shutdown() -> None:
    """Leave the job; what other ranks still wait for from this one fails there. Harmless when called again.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.shutdown()
    >>> hora.is_initialized()
    False
    """
    process_exit.leave()
    forget_process_sets()


def is_initialized() -> bool:
    """Return whether hora runs in this process.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.is_initialized()
    True
    """
    return _core.is_initialized()


def rank() -> int:
    """Return this process's number among all processes of the job, from 0.

    Raises
    ------
    NotInitializedError
        Before :func:`init`; this holds for all rank functions. It is a ``ValueError`` too.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> 0 <= hora.rank() < hora.size()
    True
    """
    return _core.rank()


def size() -> int:
    """Return the number of processes in the job: 1 unless started by ``mpirun``.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.size() >= 1
    True
    """
    return _core.size()


def local_rank() -> int:
    """Return this process's number among the processes on its host; the usual choice of GPU.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> 0 <= hora.local_rank() < hora.local_size()
    True
    """
    return _core.local_rank()


def local_size() -> int:
    """Return the number of processes on this host.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.local_size() <= hora.size()
    True
    """
    return _core.local_size()


def cross_rank() -> int:
    """Return the number of this host among the hosts that have a process of this local rank.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> 0 <= hora.cross_rank() < hora.cross_size()
    True
    """
    return _core.cross_rank()


def cross_size() -> int:
    """Return the number of hosts that have a process of this local rank.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.cross_size() <= hora.size()
    True
    """
    return _core.cross_size()


def is_homogeneous() -> bool:
    """Return whether every host has the same number of processes.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> isinstance(hora.is_homogeneous(), bool)
    True
    """
    return _core.is_homogeneous()
