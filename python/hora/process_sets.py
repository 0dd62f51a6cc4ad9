"""Process sets: the ranks that take part in a collective. So far only the set of all ranks exists."""

from __future__ import annotations

from hora import _core

__all__ = ["GlobalProcessSet", "global_process_set"]


class GlobalProcessSet:
    """The set of all ranks, default of every ``process_set`` argument."""

    __slots__ = ()

    process_set_id = 0

    def size(self) -> int:
        """Return the number of ranks in the set."""
        return _core.size()

    def rank(self) -> int:
        """Return this process's rank in the set."""
        return _core.rank()

    def included(self) -> bool:
        """Return whether this process belongs to the set."""
        return True

    def __repr__(self) -> str:
        return "global_process_set"


global_process_set = GlobalProcessSet()
