"""The parameters of an optimizer: their names, and the groups in which their gradients are reduced."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch

__all__ = ["ParameterGroups", "StartGroup", "make_start_groups", "parameter_names"]

ParameterGroups = list[dict[str, Any]]


def parameter_names(
    groups: ParameterGroups, named_parameters: Iterable[tuple[str, torch.Tensor]] | None
) -> dict[torch.Tensor, str]:
    """Return the names to use, checked as Horovod does; empty when parameters are to be numbered."""
    if named_parameters is None:
        return {
            parameter: name
            for group in groups
            for parameter, name in zip(group["params"], group.get("param_names", ()), strict=False)
        }
    pairs = list(named_parameters)
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise ValueError(
            "named_parameters must be tuples of name and parameter, as model.named_parameters() gives them"
        )
    duplicates = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if duplicates:
        raise ValueError(f"named_parameters has names given more than once: {', '.join(duplicates)}")
    names = {parameter: name for name, parameter in pairs}
    unnamed = [tuple(p.shape) for group in groups for p in group["params"] if p not in names]
    if unnamed:
        raise ValueError(f"named_parameters lacks parameters of the optimizer, of shapes {unnamed}")
    return names


class StartGroup:
    """Parameters whose gradients begin their reduction together, when the last of them is computed."""

    def __init__(self, members: Iterable[torch.Tensor]) -> None:
        self.members = list(members)
        self._missing: set[int] = set()
        self._waiting: dict[int, torch.Tensor] = {}
        self.refill()

    def refill(self) -> None:
        """Expect a gradient of every member that needs one."""
        self._missing = {id(member) for member in self.members if member.requires_grad}
        self._waiting.clear()

    def complete_with(self, parameter: torch.Tensor) -> list[torch.Tensor]:
        """Note that a member's gradient is there; return those to begin, once none is missing."""
        self._missing.discard(id(parameter))
        self._waiting[id(parameter)] = parameter
        if self._missing:
            return []
        ready = list(self._waiting.values())
        self._waiting.clear()
        return ready


def make_start_groups(
    groups: ParameterGroups, wanted: int | Iterable[Iterable[torch.Tensor]] | None, num_groups: int
) -> list[StartGroup]:
    """Return what the arguments ``groups`` and ``num_groups`` ask for.

    A number splits the parameters in their order into so many runs of about equal length. A group decides
    only when this rank sends, so ranks may split differently.
    """
    if num_groups:
        warnings.warn("num_groups is deprecated, use groups", DeprecationWarning, stacklevel=3)
        wanted = num_groups if wanted is None else wanted
    if wanted is None or wanted == 0:
        return []
    if isinstance(wanted, int):
        if isinstance(wanted, bool) or wanted < 0:
            raise ValueError(f"groups must be a number of groups or lists of parameters, not {wanted!r}")
        return split_evenly([p for group in groups for p in group["params"]], wanted)
    return [StartGroup(members) for members in check_lists(groups, wanted)]


def split_evenly(parameters: list[torch.Tensor], count: int) -> list[StartGroup]:
    """Cut the parameters into runs whose lengths differ by one at most; fewer when there are too few."""
    count = min(count, len(parameters))
    ends = [round(len(parameters) * index / count) for index in range(count + 1)]
    return [StartGroup(parameters[start:end]) for start, end in itertools.pairwise(ends)]


def check_lists(
    groups: ParameterGroups, wanted: Iterable[Iterable[torch.Tensor]]
) -> list[list[torch.Tensor]]:
    """Refuse groups that are no lists or generators of parameters of the optimizer, or that share one."""
    accepted = (list, tuple, Iterator)
    if not isinstance(wanted, accepted):
        raise ValueError(f"groups must be a number of groups or lists of parameters, not {wanted!r}")
    given = list(wanted)
    if not all(isinstance(each, accepted) for each in given):
        raise ValueError(f"groups must be a number of groups or lists of parameters, not {given!r}")
    lists = [list(each) for each in given]
    members = [member for each in lists for member in each]
    if not all(isinstance(member, torch.Tensor) for member in members):
        raise ValueError("groups must contain tensors only")
    if len({id(member) for member in members}) < len(members):
        raise ValueError("groups: a parameter is in two groups")
    known = {id(parameter) for group in groups for parameter in group["params"]}
    return [[member for member in each if id(member) in known] for each in lists]
