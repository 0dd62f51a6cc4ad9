"""Compression of both front ends, and compressors of users."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from front_end import MODULES, make

import hora.torch as hvd

both = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)


@both
def test_none_returns_the_tensor_itself(module: ModuleType) -> None:
    tensor = make(module, [1.0])
    compressed, ctx = module.Compression.none.compress(tensor)
    assert compressed is tensor
    assert module.Compression.none.decompress(compressed, ctx) is tensor


@pytest.mark.parametrize(("kind", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
@pytest.mark.parametrize("original", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_floats_are_cast_and_cast_back(kind: str, dtype: torch.dtype, original: torch.dtype) -> None:
    compression = getattr(hvd.Compression, kind)
    tensor = torch.tensor([0.5, -3.0], dtype=original)
    compressed, ctx = compression.compress(tensor)
    assert compressed.dtype == dtype
    result = compression.decompress(compressed, ctx)
    assert result.dtype == original
    assert torch.equal(result, tensor)


@both
@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_others_are_left_alone(module: ModuleType, dtype: str) -> None:
    tensor = make(module, [1, 0], dtype)
    compressed, ctx = module.Compression.fp16.compress(tensor)
    assert compressed is tensor
    assert module.Compression.fp16.decompress(compressed, ctx) is tensor


@both
def test_allreduce_sends_the_smaller_dtype(module: ModuleType) -> None:
    tensor = make(module, [1 / 3])
    result = module.allreduce(tensor, compression=module.Compression.fp16)
    assert result.dtype == tensor.dtype
    assert float(result[0]) == float(np.float16(1 / 3))


NO_BFLOAT16 = """
import numpy as np
import hora
hora.init()
try:
    hora.allreduce(np.ones(1, np.float32), compression=hora.Compression.bf16)
except ValueError as error:
    print(error)
import ml_dtypes
print(hora.allreduce(np.full(1, 1 / 3, np.float32), compression=hora.Compression.bf16)[0])
"""


def test_numpy_has_bfloat16_once_ml_dtypes_is_imported() -> None:
    pytest.importorskip("ml_dtypes")
    lines = subprocess.check_output([sys.executable, "-c", NO_BFLOAT16], text=True, timeout=30).splitlines()
    assert "bfloat16" in lines[0]
    assert lines[1] == "0.33398438"


class Negated:
    """A compressor as users write them."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, str]:
        return -tensor, "ctx"

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        assert ctx == "ctx"
        return tensor * 10


@both
@pytest.mark.parametrize("compression", [Negated, Negated()], ids=["class", "object"])
def test_compressor_of_the_user(module: ModuleType, compression: Any) -> None:
    assert module.allreduce(make(module, [2.0]), compression=compression).tolist() == [-20.0]


class Broken(Negated):
    @staticmethod
    def compress(tensor: Any) -> tuple[Any, str]:
        raise RuntimeError("cannot compress")


@both
def test_error_of_a_compressor_comes_through(module: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="cannot compress"):
        module.allreduce(make(module, [2.0]), name="x", compression=Broken)
    assert module.allreduce(make(module, [2.0]), name="x").tolist() == [2.0]
