"""The guide for C and C++ shows parts of the examples, which tests/e2e/test_cmake_package.py runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "cpp.md").read_text()
EXAMPLES = [path.read_text() for path in sorted((ROOT / "examples" / "cpp").iterdir())]
FENCE = re.compile(r"^```(cpp|c|cmake)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPETS = [match.group(2) for match in FENCE.finditer(GUIDE)]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippet_is_part_of_an_example(snippet: str) -> None:
    assert any(snippet in example for example in EXAMPLES)


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) >= 4


def test_every_name_of_the_c_interface_exists() -> None:
    header = (ROOT / "csrc" / "api" / "hora.h").read_text()
    assert all(name in header for name in re.findall(r"`((?:hora|HORA)_\w+)", GUIDE))


def test_every_header_exists() -> None:
    found = re.findall(r"`(?:include/hora/|#include <hora/)?((?:api|base|core)/\w+\.h)", GUIDE)
    assert len(found) >= 4
    assert all((ROOT / "csrc" / header).is_file() for header in found)
