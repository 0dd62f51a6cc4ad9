"""``python -m hora``: what this installation can do, and the cure for what it cannot."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from hora import _core
from hora._libraries import library_folders

FRAMEWORKS = {"numpy": "numpy", "torch": "torch==2.13.0"}  # distribution: what pip is asked for
APT = "apt-get install --no-install-recommends"


class Line(NamedTuple):
    """One row of the table; ``cure`` is a command, or empty where nothing is missing."""

    part: str
    state: str
    cure: str = ""


def version_line() -> Line:
    try:
        version = importlib.metadata.version("hora")
    except importlib.metadata.PackageNotFoundError:
        return Line("hora", "not installed, imported from its source", pip_install("-e ."))
    return Line("hora", f"{version} ({Path(__file__).parent})")


def mpi_line() -> Line:
    found, text = _core.mpi_probe()
    if not found:
        return Line("mpi", f"missing, so size() is 1: {text}", f"{APT} libopenmpi-dev openmpi-bin")
    return Line("mpi", text)


def launcher_line() -> Line:
    path = shutil.which("mpirun")
    return Line("mpirun", path) if path else Line("mpirun", "missing: not on PATH", f"{APT} openmpi-bin")


def cores_line() -> Line:
    """Count the cores of this process: bound to one, its script and hora's thread take turns on it."""
    mine, all_cores = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    if mine == 1 < all_cores:
        return Line("cores", f"bound to 1 of {all_cores}", "mpirun --bind-to none ...")
    return Line("cores", str(mine))


def framework_line(distribution: str) -> Line:
    """Look at installed metadata only: importing a framework can take seconds."""
    try:
        return Line(distribution, importlib.metadata.version(distribution))
    except importlib.metadata.PackageNotFoundError:
        return Line(distribution, "missing: not installed", pip_install(FRAMEWORKS[distribution]))


def nccl_line() -> Line:
    """Say whether tensors on GPUs can be used, and where the libraries are."""
    has_driver, driver, version, nccl, features = _core.gpu_probe(library_folders())
    if not has_driver:
        return Line("backend nccl", f"no: {driver}")
    if not version:
        return Line("backend nccl", f"no: {nccl}", pip_install("nvidia-nccl-cu13"))
    number = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
    return Line("backend nccl", f"yes: NCCL {number} ({nccl}){''.join(f', {each}' for each in features)}")


def pip_install(what: str) -> str:
    return f"{sys.executable} -m pip install {what}"


def main() -> None:
    """Print what was found, then the settings."""
    lines = [
        version_line(),
        Line("python", f"{platform.python_version()} ({sys.executable})"),
        mpi_line(),
        launcher_line(),
        cores_line(),
        Line("backend host", "yes"),
        nccl_line(),
        *(framework_line(name) for name in FRAMEWORKS),
    ]
    for line in lines:
        print(f"{line.part:<13} {line.state}")
        if line.cure:
            print(f"{'':<13} -> {line.cure}")
    print("\nSettings, read from the environment by init():")
    for name, default, accepted, meaning in _core.SETTINGS:
        value = os.environ.get(name)
        print(f"{name:<22} {default or 'unset'}{f', here {value}' if value is not None else ''} ({accepted})")
        print(f"{'':<22} {meaning}")


if __name__ == "__main__":
    main()
