"""XLA, in which collectives do not exist: models of reducing optimizers are compiled without it."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import keras

from hora._arguments import callers_level
from hora.keras.reducing import reduces

__all__ = ["do_without_xla", "leave_xla"]


@functools.cache
def leave_xla() -> None:
    """Make ``jit_compile="auto"`` and ``jit_compile=True`` mean False for models whose optimizer reduces."""
    trainer = keras.src.trainers.trainer
    supports = trainer.model_supports_jit

    @functools.wraps(supports)
    def model_supports_jit(model: Any) -> bool:
        if not reduces(getattr(model, "optimizer", None)):
            return bool(supports(model))
        tell()
        return False

    trainer.model_supports_jit = model_supports_jit


def do_without_xla(model: Any) -> None:
    """Let a model that is compiled already do without it."""
    if model.jit_compile:
        tell()
        model.jit_compile = False


def tell() -> None:
    """Say what becomes of ``jit_compile``."""
    warnings.warn(
        "the model is compiled with jit_compile=False: hora's collectives do not exist inside of XLA",
        RuntimeWarning,
        stacklevel=callers_level(),
    )
