"""The real libnccl, where a Python package brings it: what hora needs is there; without a GPU it says so."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

import hora
from hora._libraries import library_folders

API = Path(__file__).parents[2] / "csrc" / "backends" / "nccl" / "nccl_api.h"
FILES = [Path(folder) / "libnccl.so.2" for folder in library_folders()]
FOUND = next((file for file in FILES if file.exists()), None)

pytestmark = pytest.mark.skipif(FOUND is None, reason="no Python package with NCCL")


class UniqueId(ctypes.Structure):
    _fields_ = (("internal", ctypes.c_char * 128),)


class Config(ctypes.Structure):
    """As in nccl_api.h."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        *((name, ctypes.c_int) for name in ("blocking", "cga_cluster_size", "min_ctas", "max_ctas")),
        ("net_name", ctypes.c_char_p),
        ("split_share", ctypes.c_int),
    )


@pytest.fixture(scope="module")
def nccl() -> ctypes.CDLL:
    library = ctypes.CDLL(str(FOUND))
    library.ncclGetErrorString.restype = ctypes.c_char_p
    library.ncclGetLastError.restype = ctypes.c_char_p
    return library


def test_hora_finds_it_and_tells_its_version(nccl: ctypes.CDLL) -> None:
    version = ctypes.c_int()
    assert nccl.ncclGetVersion(ctypes.byref(version)) == 0
    assert hora.nccl_built() == version.value >= 21903


def test_it_has_every_function_that_hora_uses(nccl: ctypes.CDLL) -> None:
    names = re.findall(r"// (nccl\w+)$", API.read_text(), re.MULTILINE)
    assert len(names) > 15
    assert [name for name in names if not hasattr(nccl, name)] == []


def test_without_a_gpu_it_says_so(nccl: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    if hora.cuda_built():
        pytest.skip("there may be a GPU")
    unique_id, comm = UniqueId(), ctypes.c_void_p()
    assert nccl.ncclGetUniqueId(ctypes.byref(unique_id)) == 0
    assert any(bytes(unique_id))
    undefined = -(2**31)
    config = Config(
        ctypes.sizeof(Config), 0xCAFEBEEF, 21903, 1, undefined, undefined, undefined, None, undefined
    )
    result = nccl.ncclCommInitRankConfig(ctypes.byref(comm), 1, unique_id, 0, ctypes.byref(config))
    assert result != 0
    text = f"{nccl.ncclGetErrorString(result).decode()} {nccl.ncclGetLastError(None).decode()}".lower()
    assert "cuda" in text or "driver" in text
