"""The runner of the tests itself: what fails, hangs, crashes or stays behind is reported as a failure."""

from __future__ import annotations

import time

import pytest
from harness.launch import Plan, run_launch
from harness.results import Result, Suite, closing_line

TESTS = """
import os, subprocess, time, pytest

def test_good(peers):
    assert peers.exchange(peers.rank) == list(range(peers.size))

def test_fails_everywhere():
    raise ValueError("everywhere")

def test_fails_on_rank_1(peers):
    if peers.rank == 1:
        raise ValueError("only here")
    peers.wait()

@pytest.mark.timeout(1)
def test_hangs_on_rank_1(peers):
    def the_place_that_hangs():
        time.sleep(60)
    if peers.rank == 1:
        the_place_that_hangs()

def test_runs_after_the_hang():
    pass

def test_crashes_on_rank_0(peers):
    if peers.rank == 0:
        os.kill(os.getpid(), 11)
    time.sleep(60)

def test_skipped():
    pytest.skip("nothing to do")

def test_skipped_on_rank_1(peers):
    if peers.rank == 1:
        pytest.skip("not here")

def test_leaves_a_process():
    subprocess.Popen(["sleep", "60"], start_new_session=True)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("trial")
    (folder / "test_trial.py").write_text(TESTS)
    (folder / "test_broken.py").write_text("import no_such_module\n")
    plan = Plan("trial", [str(folder)], ranks=2, under_mpirun=True)
    found = run_launch(plan, folder / "logs", time.monotonic() + 60)
    return {result.name.removeprefix("trial: ").partition("::")[2] or result.name: result for result in found}


@pytest.mark.parametrize(
    ("name", "outcome", "texts"),
    [
        ("test_good", "passed", []),
        ("test_fails_everywhere", "failed", ["rank 0, 1", "ValueError: everywhere"]),
        ("test_fails_on_rank_1", "failed", ["rank 1", "only here", "ranks [1] have ended the test"]),
        ("test_hangs_on_rank_1", "failed", ["hangs", "ranks [1]", "the_place_that_hangs"]),
        ("test_runs_after_the_hang", "passed", []),
        ("test_crashes_on_rank_0", "failed", ["rank 0 ended", "Segmentation fault"]),
        ("test_skipped", "skipped", []),
        ("test_skipped_on_rank_1", "failed", ["skipped on ranks [1] only"]),
        ("test_leaves_a_process", "passed", []),
        ("trial: clean exit", "failed", ["processes left"]),
    ],
)
def test_outcome(name: str, outcome: str, texts: list[str], results: dict[str, Result]) -> None:
    assert results[name].outcome == outcome
    for text in texts:
        assert text in results[name].detail


def test_file_that_cannot_be_imported_fails(results: dict[str, Result]) -> None:
    broken = [result for name, result in results.items() if "test_broken" in name]
    assert [result.outcome for result in broken] == ["failed"]
    assert "no_such_module" in broken[0].detail


def test_closing_line() -> None:
    suites = [Suite("a", [Result("x", "passed"), Result("y", "failed")]), Suite("b", [Result("z", "passed")])]
    assert closing_line(suites) == "2 passed, 1 failed"
    suites[1].results.append(Result("s", "skipped"))
    assert closing_line(suites) == "2 passed, 1 failed, 1 skipped"
