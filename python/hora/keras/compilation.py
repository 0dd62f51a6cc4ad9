"""Train steps that Keras would compile: collectives do not exist in them, so they run without."""

from __future__ import annotations

import functools
import warnings
import weakref
from typing import Any

import keras

from hora._arguments import callers_level
from hora.keras.reducing import reduces

__all__ = ["leave_uncompiled"]


@functools.cache
def leave_uncompiled() -> None:
    """Make ``model.jit_compile`` False for models whose optimizer reduces, whatever was asked for."""
    owner = next(each for each in keras.Model.__mro__ if "jit_compile" in vars(each))
    asked = vars(owner)["jit_compile"]
    told: weakref.WeakSet[Any] = weakref.WeakSet()

    def jit_compile(model: Any) -> bool:
        if not asked.fget(model):
            return False
        if not reduces(getattr(model, "optimizer", None)):
            return True
        if model not in told:
            told.add(model)
            tell()
        return False

    owner.jit_compile = property(jit_compile, asked.fset, doc=asked.__doc__)


def tell() -> None:
    """Say what becomes of ``jit_compile``."""
    warnings.warn(
        "the model is trained with jit_compile=False: compiled steps cannot contain hora's collectives",
        RuntimeWarning,
        stacklevel=callers_level(),
    )
