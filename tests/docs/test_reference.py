"""The reference is what the docstrings say today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "make_reference.py"), "--check"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_every_setting_is_listed() -> None:
    from hora import _core

    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    assert all(f"`{name}`" in page for name, *_ in _core.SETTINGS)
