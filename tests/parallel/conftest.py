"""Brings Hora up before the tests and back to a clean start after a failed one."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hora

needs_torch = [
    path.name for path in Path(__file__).parent.glob("test_*.py") if "import torch\n" in path.read_text()
]
collect_ignore = needs_torch if importlib.util.find_spec("torch") is None else []


@pytest.fixture(scope="session", autouse=True)
def session() -> Iterator[None]:
    hora.init()
    yield
    hora.shutdown()


@pytest.fixture(autouse=True)
def initialised(session: None) -> None:
    """A test may leave Hora shut down, as long as it does so on all ranks."""
    hora.init()


@pytest.fixture
def restart(session: None) -> Iterator[Callable[..., None]]:
    """A function that starts Hora again with the given settings; they hold until the end of the test."""
    before = dict(os.environ)

    def start_again(**settings: object) -> None:
        hora.shutdown()
        os.environ.update({name: str(value) for name, value in settings.items()})
        hora.init()

    yield start_again
    hora.shutdown()
    os.environ.clear()
    os.environ.update(before)
    hora.init()


def pytest_failed_here() -> None:
    hora.shutdown()


def pytest_failed_somewhere() -> None:
    hora.shutdown()
    hora.init()
