"""The vector kernels on arm64, cross-compiled and run under QEMU where these tools are installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED = 77


@pytest.mark.timeout(300)
def test_kernels_give_the_bits_of_scalar_code_on_arm64() -> None:
    ended = subprocess.run(["scripts/arm64.sh"], cwd=ROOT, capture_output=True, text=True)
    if ended.returncode == SKIPPED:
        pytest.skip(ended.stdout.strip())
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "[  PASSED  ]" in ended.stdout
