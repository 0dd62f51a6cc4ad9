"""Process sets: which ranks take part in a collective.

A set is known to all ranks, members or not: every rank adds and removes the same sets in the same order.
Within a set, its ranks are numbered from 0 in ascending order of their global ranks; the order of allgather,
the splits of alltoall and the slices of reducescatter follow that numbering. ``root_rank`` and the ranks in
error messages are always global ranks.

Operations of several sets may be in flight at once, in any order on each rank, and the same name may be in
use in each. Unnamed calls belong together by their order within their set.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from hora import _core

__all__ = [
    "GlobalProcessSet",
    "ProcessSet",
    "add_process_set",
    "forget_process_sets",
    "global_process_set",
    "remove_process_set",
]


class ProcessSet:
    """Some ranks of the job, for the ``process_set`` argument of collectives.

    Parameters
    ----------
    ranks_or_comm : iterable of int, or mpi4py communicator
        The global ranks, in any order. A communicator's are found by ``init(comm, process_sets=...)``.

    Attributes
    ----------
    process_set_id : int or None
        The number of the set in this session; None until it is added by :func:`add_process_set` or
        ``init()``, and again once it is removed or hora is shut down.
    ranks : list of int
        The global ranks, ascending; empty while those of a communicator are not known.
    mpi_comm : communicator or None
        What the set was made from.

    Examples
    --------
    >>> import hora
    >>> hora.ProcessSet([2, 0]).ranks
    [0, 2]
    """

    __slots__ = ("_id", "_ranks", "mpi_comm")

    def __init__(self, ranks_or_comm: Any) -> None:
        is_comm = hasattr(ranks_or_comm, "Get_group")
        self.mpi_comm: Any = ranks_or_comm if is_comm else None
        self._ranks = [] if is_comm else sorted(map(operator.index, ranks_or_comm))
        self._id: int | None = None
        if len(set(self._ranks)) != len(self._ranks):
            raise ValueError(f"a process set has each rank once, not {self._ranks}")

    @property
    def process_set_id(self) -> int | None:
        return self._id

    @property
    def ranks(self) -> list[int]:
        return list(self._ranks)

    def size(self) -> int | None:
        """Return the number of ranks in the set; None while it is not added."""
        return None if self._id is None else len(self._ranks)

    def rank(self) -> int | None:
        """Return this process's rank in the set; None while it is not added.

        Raises
        ------
        ValueError
            If this process does not belong to the set.
        """
        if self._id is None:
            return None
        own = _core.rank()
        if own not in self._ranks:
            raise ValueError(f"rank {own} is not a member of {self!r}")
        return self._ranks.index(own)

    def included(self) -> bool:
        """Return whether this process belongs to the set."""
        return _core.rank() in self._ranks

    def find_ranks(self, job: Any) -> None:
        """Find the ranks of the set's communicator within ``job``, the communicator of all ranks."""
        group = self.mpi_comm.Get_group()
        own = list(range(group.Get_size()))
        self._ranks = sorted(type(group).Translate_ranks(group, own, job.Get_group()))

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self._id}, ranks={self._ranks})"


class GlobalProcessSet(ProcessSet):
    """The set of all ranks, default of every ``process_set`` argument."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())
        self._id = 0

    @property
    def ranks(self) -> list[int]:
        return list(range(_core.size()))

    def size(self) -> int:
        """Return the number of ranks in the set."""
        return _core.size()

    def rank(self) -> int:
        """Return this process's rank in the set."""
        return _core.rank()

    def included(self) -> bool:
        """Return True, once hora is initialised."""
        return self.rank() >= 0

    def __repr__(self) -> str:
        return "global_process_set"


global_process_set = GlobalProcessSet()

#: The sets of this session by their ranks, the same on every rank.
_added: dict[tuple[int, ...], ProcessSet] = {}


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Make a process set usable; all ranks of the job call this, in the same order.

    Parameters
    ----------
    process_set : ProcessSet or iterable of int
        The set, or its global ranks.

    Returns
    -------
    ProcessSet
        The set, with its ``process_set_id``.

    Raises
    ------
    ValueError
        If there is a set of these ranks, the global set included, or a rank does not exist.
    HorovodInternalError
        On all ranks, when they add different sets or some have joined.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> if hora.size() > 1:
    ...     first = hora.add_process_set([0])
    """
    try:
        added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
        ranks = added.ranks
        if added.mpi_comm is not None and not ranks:
            raise NotImplementedError(
                "a ProcessSet made from a communicator is added by init(comm, process_sets)"
            )
        if tuple(ranks) in _added or ranks == global_process_set.ranks:
            raise ValueError(f"there is a process set of the ranks {ranks} already")
    except Exception as error:
        _core.refuse(_core.OPS["add_process_set"], None, str(error))
        raise
    handle = _core.add_process_set(ranks)
    handle.wait()
    added._id = handle.value()
    _added[tuple(ranks)] = added
    return added


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forget a process set; all ranks of the job call this, in the same order.

    Operations of the set that are still in flight fail.

    Parameters
    ----------
    process_set : ProcessSet
        Its ``process_set_id`` is None afterwards; it may be added again.

    Returns
    -------
    bool
        Whether it was removed: False for the global set and for a set that is not added.

    Raises
    ------
    NotInitializedError
        Before ``init()``.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.remove_process_set(hora.global_process_set)
    False
    """
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"remove_process_set: expected a ProcessSet, not {type(process_set).__name__}")
    _core.size()  # NotInitializedError before init
    if process_set is global_process_set or process_set._id is None:
        return False
    _core.remove_process_set(process_set.ranks).wait()
    del _added[tuple(process_set.ranks)]
    process_set._id = None
    return True


def forget_process_sets() -> None:
    """Take the ids of all sets: the session that gave them is over."""
    for process_set in _added.values():
        process_set._id = None
    _added.clear()
