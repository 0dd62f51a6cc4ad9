"""The program that simulates agreement: one command runs a failing seed again, a soak can be stopped."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "build" / "dev" / "tests" / "cpp" / "hora_simulation"
FAULTS = ("lost-message", "double-count", "order-swap", "reused-id", "late-relay")

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="hora_simulation has not been built")


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=30)


def failing_seed(fault: str) -> subprocess.CompletedProcess[str]:
    for seed in range(1, 200):
        ended = simulate("--seed", str(seed), "--fault", fault)
        if ended.returncode == 1:
            return ended
    raise AssertionError(f"no seed fails with {fault}")


@pytest.mark.parametrize("fault", FAULTS)
def test_the_printed_command_fails_in_the_same_way(fault: str) -> None:
    failed = failing_seed(fault)
    replay = re.search(r"^replay: (.*)$", failed.stdout, re.MULTILINE)
    assert replay, failed.stdout
    name, *arguments = shlex.split(replay[1])
    assert Path(name).name == PROGRAM.name
    again = simulate(*arguments)
    assert again.returncode == 1
    assert again.stdout.endswith(failed.stdout)
    assert len(again.stdout) > len(failed.stdout)  # every event comes before


def test_a_soak_that_is_interrupted_ends_in_order_with_its_count() -> None:
    soak = subprocess.Popen([PROGRAM, "--soak"], stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        soak.wait(3)
    soak.send_signal(signal.SIGINT)
    output, _ = soak.communicate(timeout=20)
    assert soak.returncode == 0, output
    count = re.search(r"^(\d+) seeds in \d+ s, the last \d+: nothing wrong$", output, re.MULTILINE)
    assert count and int(count[1]) > 0, output
