"""What `mpirun` hands to the ranks, and how it refuses to start them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness.mpirun import mpirun, rank_environment

SHOW = """
import os, sys
import hora

hora.init()
assert hora.allgather_object(sys.argv[1:]) == [sys.argv[1:]] * hora.size()
seen = {name: os.environ.get(name) for name in ("FOO", "LINES_", "A.B", "PYTHONPATH")}
sys.stdout.write(f"rank {hora.rank()}: {sys.argv[1:]} {seen}\\n")
"""


def run(
    command: list[str], script: Path, *arguments: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [*command, sys.executable, str(script), *arguments],
        env={**rank_environment(), **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=40,
    )
    print(ended.stdout)
    return ended


@pytest.fixture
def show(tmp_path: Path) -> Path:
    script = tmp_path / "show what came.py"
    script.write_text(SHOW)
    return script


def test_values_and_arguments_arrive_unchanged(show: Path) -> None:
    values = {
        "FOO": 'a b "c"=d',
        "LINES_": "one\ntwo",
        "A.B": "no name for a shell",
        "PYTHONPATH": "/no where:/at all",
    }
    arguments = ["x y", "^tcp", "", 'say "no"', "$HOME"]
    ended = run(mpirun(2), show, *arguments, **values)
    assert ended.returncode == 0
    for rank in range(2):
        assert f"rank {rank}: {arguments} {values}" in ended.stdout


def test_one_host_needs_no_interface_to_the_outside(show: Path) -> None:
    ended = run(mpirun(2), show, OMPI_MCA_btl_tcp_if_include="lo", OMPI_MCA_oob_tcp_if_include="lo")
    assert ended.returncode == 0
    assert ended.stdout.count("rank 1: ") == 1


def test_an_interface_that_is_not_there_is_named_with_those_that_are(show: Path) -> None:
    ended = run(mpirun(2), show, OMPI_MCA_btl_tcp_if_include="nope0")
    assert ended.returncode != 0
    assert "OMPI_MCA_btl_tcp_if_include=nope0: this host has no network interface nope0" in ended.stdout
    assert "lo (127.0.0.1)" in ended.stdout


def test_an_interface_does_not_matter_without_tcp(show: Path) -> None:
    ended = run(mpirun(2), show, OMPI_MCA_btl_tcp_if_include="nope0", OMPI_MCA_btl="^tcp")
    assert ended.returncode == 0


def test_too_few_slots_are_told_with_the_cure(show: Path) -> None:
    ranks = len(os.sched_getaffinity(0)) + 2
    command = [part for part in mpirun(ranks) if part != "--oversubscribe"]
    ended = run([*command, "--host", "localhost:1"], show)
    assert ended.returncode != 0
    assert re.search(rf"not enough slots.*{ranks}\b", ended.stdout, re.DOTALL)
    assert "oversubscribe" in ended.stdout
    assert run(mpirun(ranks), show).returncode == 0
