"""A job of an ordinary user who has no capability at all."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.mpirun import mpirun, rank_environment

ROOT = Path(__file__).parents[2]
USER = [
    "setpriv",
    "--reuid=nobody",
    "--regid=nogroup",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
]
PACKAGES = ("numpy", "cloudpickle")
SCRIPT = """
import os, re, hora, numpy
status = open("/proc/self/status").read()
assert os.geteuid() != 0
for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd"):
    assert int(re.search(kind + r":\\s*(\\w+)", status)[1], 16) == 0, status
hora.init()
for step in range(20):
    assert hora.allreduce(numpy.full(1000, float(step)), op=hora.Sum)[-1] == step * hora.size()
assert hora.broadcast_object({"rank": hora.rank()}, 1) == {"rank": 1}
print("done", flush=True)
"""


def open_interpreter() -> str:
    """Return a Python of this version that every user may run."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, shutil.which(version, path="/usr/bin:/usr/local/bin")):
        if candidate is None:
            continue
        # The first program still starts with what root may read.
        trial = [*USER, "env", candidate, "-c", ""]
        if subprocess.run(trial, cwd="/", capture_output=True, timeout=20).returncode == 0:
            return candidate
    pytest.skip(f"no {version} that other users may run")


@pytest.fixture
def package() -> Iterator[Path]:
    """A copy of the package and of what it needs, for everybody to read."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv")
    with tempfile.TemporaryDirectory(prefix="hora-unprivileged-") as name:
        folder = Path(name)
        ignored = shutil.ignore_patterns("__pycache__", "tests", "*.pyi")
        shutil.copytree(ROOT / "python" / "hora", folder / "hora", ignore=ignored)
        for package in PACKAGES:
            found = importlib.util.find_spec(package)
            assert found and found.origin
            place = Path(found.origin).parent
            shutil.copytree(place, folder / package, ignore=ignored)
            libraries = place.with_name(f"{package}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, folder / libraries.name)
        (folder / "script.py").write_text(SCRIPT)
        (folder / "tmp").mkdir()
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        (folder / "tmp").chmod(0o1777)
        yield folder


@pytest.mark.parametrize(("split", "transport"), [("2", "shared memory"), ("1,1", "mpi")])
def test_a_job_needs_no_privileges(split: str, transport: str, package: Path) -> None:
    environment = rank_environment(
        PYTHONPATH=str(package), TMPDIR=str(package / "tmp"), HOME=str(package / "tmp"), HORA_HOST_SPLIT=split
    )
    command = [*USER, *mpirun(2), open_interpreter(), str(package / "script.py")]
    ended = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("done") == 2
    assert f"2 ranks on {split.count(',') + 1} host" in ended.stderr
    assert f"over {transport};" in ended.stderr
