"""Signatures written as in a table of Horovod's API."""

from __future__ import annotations

import inspect
from types import ModuleType

import hora
from hora.compression import NoneCompressor


def written(parameter: inspect.Parameter) -> str:
    """Return a parameter as the tables write it."""
    default = parameter.default
    if default is parameter.empty:
        return parameter.name
    if isinstance(default, hora.ReduceOp):
        return f"{parameter.name}={default.name}"
    if default is NoneCompressor:
        return f"{parameter.name}=Compression.none"
    return f"{parameter.name}={default!r}"


def signature(module: ModuleType, name: str) -> str:
    """Return the parameters of a module's function."""
    return ", ".join(map(written, inspect.signature(getattr(module, name)).parameters.values()))
