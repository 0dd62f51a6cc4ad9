"""The front ends under test behind one face, so that a test can run on each that is installed."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy

import hora

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
DTYPES = ("bool", *INTEGERS, *FLOATS)


@dataclass(frozen=True)
class FrontEnd:
    """A module of Hora and how its tensors are made and read; this one is for NumPy."""

    hvd: ModuleType
    dtypes: tuple[str, ...]

    def tensor(self, values: Any, dtype: str) -> Any:
        """Return a new tensor of this front end; `values` may be anything that NumPy understands."""
        return numpy.array(values).astype(dtype)

    def array(self, tensor: Any) -> numpy.ndarray:
        """Return the values of a tensor exactly, as bool, int64 or float64."""
        kind = {"b": "bool", "f": "float64"}.get(tensor.dtype.kind, "int64")
        return numpy.array(tensor, dtype=kind)

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype)

    def __str__(self) -> str:
        return self.hvd.__name__


class TorchFrontEnd(FrontEnd):
    def tensor(self, values: Any, dtype: str) -> Any:
        import torch

        return torch.from_numpy(numpy.array(values)).to(getattr(torch, dtype), copy=True)

    def array(self, tensor: Any) -> numpy.ndarray:
        tensor = tensor.detach()
        return super().array((tensor.double() if tensor.is_floating_point() else tensor).numpy())

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype).removeprefix("torch.")


NUMPY = FrontEnd(hora, tuple(dtype for dtype in DTYPES if dtype != "bfloat16"))
FRONT_ENDS = [NUMPY]
if importlib.util.find_spec("torch") is not None:
    import hora.torch

    TORCH = TorchFrontEnd(hora.torch, DTYPES)
    FRONT_ENDS.append(TORCH)


def combinations(dtypes: tuple[str, ...] = DTYPES) -> list[tuple[FrontEnd, str]]:
    """Return all pairs of a front end and a dtype that it knows."""
    return [(front, dtype) for front in FRONT_ENDS for dtype in dtypes if dtype in front.dtypes]
