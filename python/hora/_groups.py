"""Which gradients are reduced together: the argument ``groups`` of optimizers and tapes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = ["Groups", "ReadGroups", "batches", "read_groups"]

#: Lists of variables whose gradients are reduced together, or how many of them to make.
Groups = int | Iterable[Iterable[Any]] | None

ReadGroups = int | tuple[frozenset[int], ...] | None


def read_groups(num_groups: int, groups: Groups, identity: Callable[[Any], int]) -> ReadGroups:
    """Return groups of variables, or how many to make; None asks for none.

    Parameters
    ----------
    num_groups : int
        Deprecated spelling of ``groups``, which goes first.
    groups
        See :data:`Groups`.
    identity : callable
        Tells a variable from others.
    """
    chosen = num_groups if groups is None else groups
    if isinstance(chosen, int):
        if chosen < 0 or num_groups < 0:
            raise ValueError("the number of groups is negative")
        return chosen or None
    read = [[identity(variable) for variable in group] for group in chosen]
    every = list(itertools.chain(*read))
    if len(set(every)) != len(every):
        raise ValueError("a variable is in groups twice")
    return tuple(map(frozenset, read))


def batches(
    groups: int | tuple[frozenset[int], ...], members: list[int], identities: Sequence[int]
) -> list[list[int]]:
    """Return which of the ``members``, positions in ``identities``, are reduced in one operation."""
    if not members:
        return []
    if isinstance(groups, int):
        count = min(groups, len(members))
        borders = [len(members) * number // count for number in range(count + 1)]
        return [members[first:last] for first, last in itertools.pairwise(borders)]
    grouped = [[at for at in members if identities[at] in group] for group in groups]
    alone = set(members).difference(*grouped)
    return [batch for batch in grouped if batch] + [[at] for at in members if at in alone]
