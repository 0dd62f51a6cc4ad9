"""Running the examples as scripts, and what those on Fashion-MNIST report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.mpirun import Ending, run_script

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAIN_PYTHON = 0
FIGURES = {
    "ranks",
    "threads",
    "epochs",
    "images_per_second",
    "seconds_per_epoch",
    "test_accuracy",
    "weights_equal",
}


def as_script(name: str, *arguments: object) -> str:
    """Return the text of a program that runs an example as if it had been started by itself."""
    words = [name, *map(str, arguments)]
    return (
        "import runpy, sys\n"
        f"sys.path.insert(0, {str(EXAMPLES)!r})\n"
        f"sys.argv = {words}\n"
        f"runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')\n"
    )


def run_example(name: str, ranks: int, *arguments: object, limit_s: float = 90.0, **settings: str) -> Ending:
    """Run an example with arguments and environment variables."""
    return run_script(as_script(name, *arguments), ranks, limit_s, environment=settings)


def assert_figures(figures: dict[str, Any], ranks: int, threads: int, epochs: int, images: int = 320) -> None:
    assert figures.keys() == FIGURES
    assert (figures["ranks"], figures["threads"], figures["epochs"]) == (ranks, threads, epochs)
    assert figures["weights_equal"] is True
    assert figures["images_per_second"] * figures["seconds_per_epoch"] == pytest.approx(images)
    assert 0 < figures["test_accuracy"] <= 1
