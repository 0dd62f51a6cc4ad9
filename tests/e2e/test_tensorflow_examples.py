"""The examples for TensorFlow and Keras, on a few hundred images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from harness.examples import PLAIN_PYTHON, assert_figures, run_example

pytest.importorskip("tensorflow")

LOOP, KERAS = "tensorflow_fashion_mnist.py", "keras_fashion_mnist.py"
SMALL = ("--images", 320, "--batch-size", 64, "--threads", 1)


def train(
    name: str, ranks: int, folder: Path, *arguments: object, **settings: str
) -> tuple[dict[str, Any], str]:
    """Run an example; return its figures and what it printed."""
    file = folder / "figures.json"
    ending = run_example(name, ranks, *SMALL, "--json", file, *arguments, **settings)
    assert ending.code == 0, ending.output
    assert ending.left == []
    return json.loads(file.read_text()), ending.output


@pytest.mark.timeout(200)
def test_a_loop_trains_on_two_ranks_like_one_process(tmp_path: Path) -> None:
    found = [train(LOOP, ranks, tmp_path, "--epochs", 4) for ranks in (PLAIN_PYTHON, 2)]
    for ranks, (figures, _) in enumerate(found, start=1):
        assert_figures(figures, ranks, threads=1, epochs=4)
    accuracies = [figures["test_accuracy"] for figures, _ in found]
    assert accuracies[0] > 0.2  # better than a guess
    assert accuracies[1] == pytest.approx(accuracies[0], abs=0.02)
    losses = [output.split("loss ")[1].split(",")[0] for _, output in found]
    assert float(losses[1]) == pytest.approx(float(losses[0]), abs=0.001)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_keras_trains_and_resumes(backend: str, tmp_path: Path) -> None:
    if backend == "torch":
        pytest.importorskip("torch")
    settings = {"KERAS_BACKEND": backend}
    figures, output = train(KERAS, 2, tmp_path, "--epochs", 1, "--checkpoint", tmp_path, **settings)
    assert_figures(figures, 2, threads=1, epochs=1)
    assert output.count("epoch 1/1") == 1
    figures, output = train(KERAS, 2, tmp_path, "--epochs", 2, "--checkpoint", tmp_path, **settings)
    assert_figures(figures, 2, threads=1, epochs=2)
    assert "epoch 1/2" not in output
    assert output.count("resumed from") == output.count("epoch 2/2") == 1
    assert sorted(path.name for path in tmp_path.glob("*.keras")) == ["epoch-0001.keras", "epoch-0002.keras"]


@pytest.mark.timeout(120)
def test_a_bad_option_fails_with_a_reason() -> None:
    ending = run_example(KERAS, 2, "--batch-size", 63)
    assert ending.code not in (0, None), ending.output
    assert "cannot be split evenly over 2 ranks" in ending.output
    assert ending.left == []
