"""Single-process tests: hora with one rank."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import hora


@pytest.fixture(autouse=True)
def initialised() -> Iterator[None]:
    """Let each test begin with hora running and all names free."""
    hora.init()
    yield
    hora.shutdown()
