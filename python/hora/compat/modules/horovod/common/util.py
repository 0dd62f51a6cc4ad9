"""``horovod.common.util``: the functions of it that scripts and test suites import."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import hora
from hora import _core

__all__ = [
    "ccl_built",
    "check_extension",
    "check_installed_version",
    "ddl_built",
    "env",
    "extension_available",
    "get_ext_suffix",
    "get_extension_full_path",
    "gloo_built",
    "gpu_available",
    "is_iterable",
    "is_version_greater_equal_than",
    "mpi_built",
    "nccl_built",
    "num_rank_is_power_2",
    "split_list",
]

Item = TypeVar("Item")

_cache = functools.cache


def get_ext_suffix() -> str:
    """Return how the file name of the extension module ends."""
    return "".join(Path(str(_core.__file__)).suffixes)


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Return the file of the extension module, which is the same for all frameworks."""
    return str(_core.__file__)


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Do nothing: hora's extension is built for no framework, so a wrong build cannot be met."""


def check_installed_version(name: str, version: str, exception: Exception | None = None) -> None:
    """Do nothing: hora's extension is built for no version of a framework."""


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Return whether ``horovod.<ext_base_name>`` can be imported: provided here, framework installed."""
    provided = Path(__file__).parents[1] / ext_base_name / "__init__.py"
    return provided.exists() and importlib.util.find_spec(ext_base_name) is not None


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Return whether hora can reduce on GPUs."""
    return hora.cuda_built()


def mpi_built(verbose: bool = False) -> bool:
    """Return whether MPI can be used."""
    return hora.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """Return False: hora has no Gloo."""
    return hora.gloo_built()


def nccl_built(verbose: bool = False) -> int:
    """Return NCCL's version, 0 if it cannot be used."""
    return hora.nccl_built()


def ddl_built(verbose: bool = False) -> bool:
    """Return False: hora has no DDL."""
    return hora.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    """Return False: hora has no oneCCL."""
    return hora.ccl_built()


@contextlib.contextmanager
def env(**kwargs: str | None) -> Iterator[None]:
    """Set environment variables, or unset those given as None, for the time of a ``with`` block."""
    before = {name: os.environ.get(name) for name in kwargs}
    apply(kwargs)
    try:
        yield
    finally:
        apply(before)


def apply(variables: dict[str, str | None]) -> None:
    """Set each variable, or unset it."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def split_list(l: Sequence[Item], n: int) -> list[Sequence[Item]]:  # noqa: E741 - called by keyword
    """Cut a sequence into ``n`` runs whose lengths differ by one at most, the longer ones first."""
    each, longer = divmod(len(l), n)
    starts = [each * index + min(index, longer) for index in range(n + 1)]
    return [l[starts[index] : starts[index + 1]] for index in range(n)]


def num_rank_is_power_2(num_rank: int) -> bool:
    """Return whether a number is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def is_iterable(x: object) -> bool:
    """Return whether a value can be iterated over."""
    return isinstance(x, Iterable)


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Compare two versions of the form ``1.2.3``, ignoring what follows the numbers."""
    for each in (ver, target):
        if not re.match(r"\d+\.\d+\.\d+", each):
            raise ValueError(f"a version has the form 1.2.3, not {each!r}")
    return numbers(ver) >= numbers(target)


def numbers(version: str) -> list[int]:
    """Return the three numbers of a version."""
    return [int(part) for part in re.findall(r"\d+", version)[:3]]
