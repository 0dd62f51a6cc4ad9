"""Brings Hora up before the tests and back to a clean start after a failed one."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hora

pytest.register_assert_rewrite("keras_callbacks")


def files_that_need(package: str, line: str) -> list[str]:
    """Return the test files with a line that fails where a package is not installed."""
    if importlib.util.find_spec(package) is not None:
        return []
    return [path.name for path in Path(__file__).parent.glob("test_*.py") if line in path.read_text()]


collect_ignore = [
    *files_that_need("torch", "import torch\n"),
    *files_that_need("tensorflow", "import tensorflow as tf\n"),
]


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
