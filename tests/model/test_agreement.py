"""The model of the agreement protocol, in every order of events that can be (see `agreement.pml`)."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

MODEL = Path(__file__).with_name("agreement.pml")
COMPILER = shutil.which("cc")

# How many states each variant has. A change that was not meant to change them is noticed. JOIN with CRASH,
# 5,081,622 states, and JOIN with LEAVE, 5,315,196, keep the claims as well, but take half a minute each and
# are not searched here.
STATES = {
    (): 1429,
    ("IDS",): 1429,
    ("IDS", "MISMATCH"): 8864,
    ("IDS", "JOIN"): 144_512,
    ("IDS", "LEAVE"): 134_738,
    ("IDS", "CRASH"): 65_763,
    ("IDS", "MISMATCH", "CRASH"): 400_498,
    ("IDS", "LEAVE", "CRASH"): 2_091_005,
}
# What Spin says about each planted error.
PLANTED = {
    ("IDS", "BUG_ORDER"): "assertion violated (log[",
    ("MISMATCH", "BUG_MERGE"): "assertion violated ( !(pending[",
    ("IDS", "BUG_LEARN"): "assertion violated ( !(is_id)",
    ("BUG_RELAY",): "acceptance cycle",
    ("JOIN", "BUG_JOIN"): "assertion violated (pending[",
    ("CRASH", "BUG_DEATH"): "acceptance cycle",
}

pytestmark = pytest.mark.skipif(
    shutil.which("spin") is None or COMPILER is None, reason="the model needs spin and a C compiler"
)


@dataclass(frozen=True)
class Search:
    errors: int
    states: int
    output: str


def search(flags: tuple[str, ...], folder: Path) -> Search:
    """Look at all states that the variant can reach, without Spin's reduction, whose counts may change."""
    subprocess.run(
        ["spin", "-a", *(f"-D{flag}" for flag in flags), MODEL], cwd=folder, check=True, timeout=20
    )
    build = ["cc", "-O1", "-w", "-DNOREDUCE", "-DCOLLAPSE", "-DMEMLIM=1024", "-o", "pan", "pan.c"]
    subprocess.run(build, cwd=folder, check=True, timeout=60)
    ended = subprocess.run(
        ["./pan", "-a", "-m100000"], cwd=folder, capture_output=True, text=True, timeout=60
    )
    errors = re.search(r"errors: (\d+)", ended.stdout)
    states = re.search(r"(\d+) states, stored", ended.stdout)
    assert errors and states, ended.stdout + ended.stderr
    assert "max search depth too small" not in ended.stdout
    return Search(int(errors[1]), int(states[1]), ended.stdout)


@pytest.mark.parametrize("flags", STATES, ids="-".join)
def test_all_orders_of_events_keep_the_claims(flags: tuple[str, ...], tmp_path: Path) -> None:
    found = search(flags, tmp_path)
    assert found.errors == 0, found.output
    assert "reached -DMEMLIM bound" not in found.output
    assert found.states == STATES[flags]


@pytest.mark.parametrize("flags", PLANTED, ids="-".join)
def test_a_planted_error_is_found(flags: tuple[str, ...], tmp_path: Path) -> None:
    found = search(flags, tmp_path)
    assert found.errors == 1
    assert PLANTED[flags] in found.output, found.output
