"""NumPy and PyTorch behind one face, so that each test of a collective runs on both."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch

import hora
import hora.torch

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS)
MODULES: tuple[ModuleType, ...] = (hora, hora.torch)


def make(module: ModuleType, values: Any, dtype: str = "float32") -> Any:
    """Return a new tensor of the front end ``module``."""
    if module is hora:
        return np.array(values).astype(dtype)
    return torch.tensor(values).to(getattr(torch, dtype))


def has_dtype(module: ModuleType, dtype: str) -> bool:
    """Return whether the framework has the dtype without further packages."""
    return module is not hora or dtype != "bfloat16"


def strides(tensor: Any) -> Any:
    return tensor.strides if isinstance(tensor, np.ndarray) else tensor.stride()


CASES = [(module, dtype) for module in MODULES for dtype in DTYPES if has_dtype(module, dtype)]
