"""What the pages on trouble quote is what the library says, and they leave nothing out that needs a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
GPU_TABLE = (ROOT / "docs" / "gpu.md").read_text().split("## When it does not work")[1]
SOURCES = [*(ROOT / "csrc").rglob("*.[ch]*"), *(ROOT / "python" / "hora").rglob("*.py")]
PLACEHOLDER = re.compile(r"\{[^{}\n;]{0,40}\}")
NUMBER = re.compile(r"\b\d[\w.:]*")
# How a message begins that is more than the refusal of an argument. That is what kMismatch and
# kInvalidArgument are where they are raised; disagreement of ranks is described in negotiation/mismatch.cc.
BEGINNINGS = (
    r"\braise\(\s*ErrorKind::(?:kStartup|kSessionFailed),\s*",
    r"\blog_(?:warning|error)\((?:\s*fmt::format\()?\s*",
    r"\braise HorovodInternalError\(\s*f?",
    r"\bwarnings\.warn\(\s*f?",
)
MESSAGE = re.compile(rf'(?:{"|".join(BEGINNINGS)})"((?:[^"\\]|\\.)*)"(?!\s*,?\s*DeprecationWarning)')
# What is wrong with a message arrives as `sent what cannot be: ...`. Kernels are asked for what they do not
# have by a mistake of ours alone, which a test of every operation on every dtype would meet.
NOT_ALONE = ("csrc/negotiation/", "csrc/collectives/")
# They name their cause and what to do, or pass on the words of another.
PLAIN = (
    r"rank \.\.\.: \.\.\.$",
    r"sparse_allreduce.*: rank \.\.\. sent a tensor of extents",
    r"the reduction of \.\.\. could not begin: \.\.\.",
    r"optimizer\.step\(\) called without optimizer\.skip_synchronize\(\)",
)


def in_one_line(source: str) -> str:
    """Join texts that go on in the next line, and show what is filled in as the page does."""
    return PLACEHOLDER.sub("...", re.sub(r'"\s*\n\s*f?"', "", source))


def quotes() -> Iterator[str]:
    for first_cell in re.findall(r"^\| (`.+?) \|", PAGE + NUMBER.sub("...", GPU_TABLE), re.MULTILINE):
        yield from re.findall(r"`([^`]+)`", first_cell)


def messages() -> Iterator[str]:
    for path in SOURCES:
        if str(path.relative_to(ROOT)).startswith(NOT_ALONE):
            continue
        for message in MESSAGE.findall(in_one_line(path.read_text())):
            if re.search("[a-z]", message) and not any(re.match(plain, message) for plain in PLAIN):
                yield message


def pattern_of(quote: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in quote.split("...")))


@pytest.fixture(scope="module")
def texts() -> str:
    return "\n".join(in_one_line(path.read_text()) for path in SOURCES)


@pytest.mark.parametrize("quote", list(quotes()))
def test_message_exists(quote: str, texts: str) -> None:
    parts = [part.strip(" :;,") for part in quote.split("...")]
    assert all(part in texts for part in parts if part), quote


def test_there_are_messages() -> None:
    assert len(list(quotes())) > 60
    assert len(list(messages())) > 60


@pytest.mark.parametrize("message", sorted(set(messages())))
def test_message_is_explained(message: str) -> None:
    assert any(pattern_of(quote).search(message) for quote in quotes())
