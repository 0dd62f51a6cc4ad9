"""What `cmake --install` puts under a prefix, as a user's C and C++ projects see it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from harness.mpirun import Ending, run_script

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "dev"
EXAMPLES = ROOT / "examples" / "cpp"


def succeed(command: Sequence[str | Path], limit_s: float = 60) -> str:
    """Run a command that has to succeed; return what it printed."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    assert ended.returncode == 0, f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
    return ended.stdout


def build(sources: Path, folder: Path, prefix: Path) -> None:
    succeed(["cmake", "-S", sources, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"])
    succeed(["cmake", "--build", folder])


def run(program: Path, ranks: int) -> Ending:
    return run_script(f"import os\nos.execv({str(program)!r}, [{str(program)!r}])", ranks)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Hora was installed, and moved to afterwards."""
    folder = tmp_path_factory.mktemp("package")
    succeed(["cmake", "--install", BUILD, "--prefix", folder / "installed"])
    return Path(shutil.move(folder / "installed", folder / "moved"))


@pytest.fixture(scope="module")
def examples(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, built against the installed package."""
    folder = tmp_path_factory.mktemp("examples")
    build(EXAMPLES, folder, prefix)
    return folder


def test_cpp_example_runs_on_two_ranks(examples: Path) -> None:
    ending = run(examples / "allreduce", ranks=2)
    assert ending.code == 0, ending.output
    for rank in range(2):
        assert f"rank {rank} of 2: average 0.5\n" in ending.output
    assert ending.left == []


def test_c_example_runs_on_two_ranks(examples: Path) -> None:
    ending = run(examples / "allgather", ranks=2)
    assert ending.code == 0, ending.output
    for rank in range(2):
        assert f"rank {rank} of 2: 3 rows, the last is 11\n" in ending.output
    assert ending.left == []


def test_examples_run_without_a_launcher(examples: Path) -> None:
    assert run(examples / "allreduce", ranks=0).output == "rank 0 of 1: average 0\n"
    assert run(examples / "allgather", ranks=0).output == "rank 0 of 1: 1 rows, the last is 0\n"


def test_a_project_without_cpp_finds_the_package(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        "project(plain LANGUAGES C)\n"
        "find_package(hora REQUIRED)\n"
        "add_executable(plain plain.c)\n"
        "target_link_libraries(plain PRIVATE hora::hora)\n"
    )
    (tmp_path / "plain.c").write_text(
        "#include <hora.h>\nint main(void) { return hora_abi_version() == HORA_ABI_VERSION ? 0 : 1; }\n"
    )
    build(tmp_path, tmp_path / "build", prefix)
    succeed([tmp_path / "build" / "plain"])


def test_c_header_is_c99(prefix: Path) -> None:
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror"]
    succeed(["cc", *strict, "-fsyntax-only", "-x", "c", prefix / "include" / "hora.h"])


def test_headers_need_no_other_library_and_stay_clear_of_the_users_folders(
    prefix: Path, tmp_path: Path
) -> None:
    source = tmp_path / "all.cc"
    for header in sorted((prefix / "include").rglob("*.h")):
        with source.open("a") as file:
            file.write(f"#include <{header.relative_to(prefix / 'include')}>\n")
        decoy = tmp_path / "own" / header.parent.name / header.name
        decoy.parent.mkdir(parents=True, exist_ok=True)
        decoy.write_text("#error a header of the user\n")
    needed = succeed(
        ["c++", "-std=c++20", "-M", "-I", tmp_path / "own", "-isystem", prefix / "include", source]
    )
    assert str(prefix / "include" / "hora" / "api" / "session.h") in needed
    for foreign in ("fmt/", "spdlog/", "mpi.h", str(ROOT)):
        assert foreign not in needed


def test_nothing_that_is_installed_names_the_build(prefix: Path) -> None:
    for file in prefix.rglob("*.cmake"):
        assert str(ROOT) not in file.read_text(), file
