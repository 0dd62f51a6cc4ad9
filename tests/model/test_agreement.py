"""The model of the agreement protocol, in every order of events that can be (see `agreement.pml`)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

MODEL = Path(__file__).with_name("agreement.pml")
COMPILER = shutil.which("cc")

Flags = tuple[str, ...]

# How many states each variant has, most first. A change that was not meant to change them is noticed.
STATES: dict[Flags, int] = {
    ("JOIN", "LEAVE"): 5_315_196,
    ("JOIN", "CRASH"): 5_081_622,
    ("IDS", "LEAVE", "CRASH"): 2_091_005,
    ("IDS", "MISMATCH", "CRASH"): 400_498,
    ("IDS", "JOIN"): 144_512,
    ("IDS", "LEAVE"): 134_738,
    ("IDS", "CRASH"): 65_763,
    ("IDS", "MISMATCH"): 8864,
    ("IDS",): 1429,
    (): 1429,
}
# So many are worth an optimised search, which takes longer to compile.
MANY = 1_000_000
# What Spin says about each planted error.
PLANTED: dict[Flags, str] = {
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


def search(flags: Flags, folder: Path) -> Search:
    """Look at all states that the variant can reach, without Spin's reduction, whose counts may change."""
    subprocess.run(
        ["spin", "-a", *(f"-D{flag}" for flag in flags), MODEL], cwd=folder, check=True, timeout=20
    )
    level = "-O2" if STATES.get(flags, 0) > MANY else "-O0"
    kind = ["-DNOREDUCE", "-DCOLLAPSE", "-DNOFAIR", "-DMEMLIM=2048"]
    subprocess.run(["cc", level, "-w", *kind, "-o", "pan", "pan.c"], cwd=folder, check=True, timeout=60)
    ended = subprocess.run(
        ["./pan", "-a", "-m100000"], cwd=folder, capture_output=True, text=True, timeout=100
    )
    errors = re.search(r"errors: (\d+)", ended.stdout)
    states = re.search(r"(\d+) states, stored", ended.stdout)
    assert errors and states, ended.stdout + ended.stderr
    assert "max search depth too small" not in ended.stdout
    return Search(int(errors[1]), int(states[1]), ended.stdout)


@pytest.fixture(scope="module")
def searches(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[Flags, Future[Search]]]:
    """Search what the chosen tests ask for, in their order, as many variants at once as there are cores."""
    chosen = [item for item in request.session.items if item.path == request.path]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        begun = {}
        for item in chosen:
            flags = item.callspec.params["flags"]  # type: ignore[attr-defined]
            begun[flags] = pool.submit(search, flags, tmp_path_factory.mktemp("search"))
        yield begun
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("flags", STATES, ids="-".join)
def test_all_orders_of_events_keep_the_claims(flags: Flags, searches: Mapping[Flags, Future[Search]]) -> None:
    found = searches[flags].result()
    assert found.errors == 0, found.output
    assert "reached -DMEMLIM bound" not in found.output
    assert found.states == STATES[flags]


@pytest.mark.parametrize("flags", PLANTED, ids="-".join)
def test_a_planted_error_is_found(flags: Flags, searches: Mapping[Flags, Future[Search]]) -> None:
    found = searches[flags].result()
    assert found.errors == 1
    assert PLANTED[flags] in found.output, found.output
