"""Checks and defaults of arguments that several collectives share."""

from __future__ import annotations

import operator
import sys
import warnings
from enum import IntEnum
from typing import Any

from hora import _core
from hora.process_sets import ProcessSet

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "ReduceOp",
    "Sum",
    "check_name",
    "choose_op",
    "read_splits",
    "set_id",
    "share_of_rows",
]


class ReduceOp(IntEnum):
    """How the ranks' tensors are combined; the numbers are Horovod's.

    ========  =====================================  ==================================  ==================
    op        floating point                         integers                            bool
    ========  =====================================  ==================================  ==================
    Average   sum divided by the number of ranks     sum, wrapped, divided, truncated    refused
                                                     toward zero
    Sum       sum                                    sum, wraps around                   logical or
    Min, Max  NaN where any rank has NaN             smallest, largest value             logical and, or
    Product   product                                product, wraps around               logical and
    Adasum    adaptive summation (Maleki et al.,     refused                             refused
              2020), each tensor by itself
    ========  =====================================  ==================================  ==================

    float16 and bfloat16 are added in float32 and rounded once, and ``Average`` divides before it adds, so
    that nothing overflows whose mean fits. ``prescale_factor`` and ``postscale_factor`` multiply
    floating-point values in the type in which they are added; integers are multiplied in float64, then
    truncated toward zero; bool cannot be scaled. Numbers of ranks are those that contribute, see
    :func:`hora.join`.
    """

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


Average = ReduceOp.Average
Sum = ReduceOp.Sum
Adasum = ReduceOp.Adasum
Min = ReduceOp.Min
Max = ReduceOp.Max
Product = ReduceOp.Product


def choose_op(average: bool | None, op: int | None) -> int:
    """Return the reduction to perform; ``average`` is the spelling that Horovod deprecated."""
    if average is not None:
        if op is not None:
            raise ValueError("op replaces average, give only one of them")
        warnings.warn(
            "average is deprecated, use op=Average or op=Sum", DeprecationWarning, stacklevel=callers_level()
        )
        return Average if average else Sum
    if op is None:
        return Average
    if not isinstance(op, int) or not 0 <= op <= 5:
        raise ValueError(f"op must be Average, Sum, Adasum, Min, Max or Product, not {op!r}")
    return op


def callers_level() -> int:
    """Return the ``stacklevel`` at which a warning points at the line of the user."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].split(".")[0] == "hora":
        level, frame = level + 1, frame.f_back
    return level - 1


def check_name(name: str | None) -> None:
    """Refuse a name that is no string."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a string or None, not {type(name).__name__}")


def set_id(process_set: ProcessSet | None) -> int:
    """Return the number of a process set; None is the global one. Membership is the core's to check."""
    if process_set is None:
        return 0
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"process_set must be a ProcessSet, not {type(process_set).__name__}")
    if process_set._id is None:
        _core.size()
        raise ValueError(f"{process_set!r} is not added; call add_process_set on all ranks, or init with it")
    return process_set._id


def read_splits(splits: Any, rows: int, members: int) -> list[int]:
    """Return how many rows each member of a process set is sent; without ``splits`` all get equally many."""
    if splits is None:
        size = len(_core.process_set_ranks(members))
        if rows % size != 0:
            raise ValueError(f"without splits, {rows} rows cannot be shared equally among {size} ranks")
        return [rows // size] * size
    values = splits.tolist() if hasattr(splits, "tolist") else splits
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"splits must be a 1-d tensor or list of integers, not {splits!r}")
    try:
        return [operator.index(value) for value in values]
    except TypeError as error:
        raise ValueError(f"splits must be a 1-d tensor or list of integers, not {splits!r}") from error


def share_of_rows(rows: int, members: int) -> int:
    """Return how many of a tensor's rows this rank gets by reducescatter: the first ranks get one more."""
    ranks = _core.process_set_ranks(members)
    if _core.rank() not in ranks:
        return 0  # the core refuses the call
    return rows // len(ranks) + (ranks.index(_core.rank()) < rows % len(ranks))
