"""What the page on troubleshooting quotes is what the library says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
SOURCES = [*(ROOT / "csrc").rglob("*.[ch]*"), *(ROOT / "python" / "hora").rglob("*.py")]
PLACEHOLDER = re.compile(r"\{[^{}\n;]{0,40}\}")


def in_one_line(source: str) -> str:
    """Join texts that go on in the next line, and show what is filled in as the page does."""
    return PLACEHOLDER.sub("...", re.sub(r'"\s*\n\s*f?"', "", source))


def messages() -> list[str]:
    return re.findall(r"^\| `(.+?)` \|", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def texts() -> str:
    return "\n".join(in_one_line(path.read_text()) for path in SOURCES)


@pytest.mark.parametrize("message", messages())
def test_message_exists(message: str, texts: str) -> None:
    parts = [part.strip(" :;,") for part in message.split("...")]
    assert all(part in texts for part in parts if part), message


def test_there_are_messages() -> None:
    assert len(messages()) > 20
