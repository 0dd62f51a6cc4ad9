"""Every Python snippet in the documents runs, without a launcher and on two ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness.mpirun import run_script

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def snippets() -> list[object]:
    found = []
    for document in DOCUMENTS:
        for number, match in enumerate(FENCE.finditer(document.read_text()), start=1):
            name = f"{document.relative_to(ROOT)}#{number}"
            found.append(pytest.param(match.group(1), id=name))
    return found


@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("code", snippets())
def test_snippet_runs(code: str, ranks: int) -> None:
    ending = run_script(code, ranks)
    assert ending.code == 0, ending.output


def test_there_are_snippets() -> None:
    assert len(snippets()) >= 3
