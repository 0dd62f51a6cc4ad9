"""Checks and defaults of arguments that several collectives share."""

from __future__ import annotations

import warnings
from enum import IntEnum

from hora.process_sets import GlobalProcessSet, global_process_set

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "ReduceOp",
    "Sum",
    "check_name_and_set",
    "choose_op",
]


class ReduceOp(IntEnum):
    """How the ranks' tensors are combined; the numbers are Horovod's."""

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
        warnings.warn("average is deprecated, use op=Average or op=Sum", DeprecationWarning, stacklevel=4)
        return Average if average else Sum
    if op is None:
        return Average
    if not isinstance(op, int) or not 0 <= op <= 5:
        raise ValueError(f"op must be Average, Sum, Min, Max or Product, not {op!r}")
    if op == 2:
        raise ValueError("op=Adasum is not available yet")
    return op


def check_name_and_set(name: str | None, process_set: GlobalProcessSet | None) -> None:
    """Refuse a name that is no string and a process set other than the global one."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a string or None, not {type(name).__name__}")
    if process_set is not global_process_set and process_set is not None:
        raise ValueError("process_set other than global_process_set is not available yet")
