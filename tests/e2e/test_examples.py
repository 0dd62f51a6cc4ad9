"""The main job and the demo, on a few hundred images."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from harness.examples import PLAIN_PYTHON, as_script, assert_figures, run_example
from harness.mpirun import run_script

torch = pytest.importorskip("torch")


def training_arguments(folder: Path) -> list[str]:
    data = ("--images", 320, "--batch-size", 64, "--epochs", 2, "--threads", 1, "--no-progress")
    files = ("--checkpoint", folder, "--json", folder / "figures.json")
    return list(map(str, (*data, *files)))


def train(ranks: int, folder: Path) -> str:
    """Train for two epochs of five steps, or go on from the checkpoint there; return what was printed."""
    ending = run_example("torch_fashion_mnist.py", ranks, *training_arguments(folder))
    assert ending.code == 0, ending.output
    assert ending.left == []
    return ending.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Folders of two uninterrupted trainings, by number of ranks."""
    folders = {ranks: tmp_path_factory.mktemp("trained") for ranks in (PLAIN_PYTHON, 2)}
    for ranks, folder in folders.items():
        train(ranks, folder)
    return folders


def weights(folder: Path, epoch: int) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(folder / f"epoch-000{epoch}.pt", weights_only=True)["model"]
    return state


@pytest.mark.timeout(200)
def test_training_reports_its_figures(trained: dict[int, Path]) -> None:
    for ranks, folder in trained.items():
        figures = json.loads((folder / "figures.json").read_text())
        assert_figures(figures, max(ranks, 1), threads=1, epochs=2)


@pytest.mark.timeout(200)
def test_two_ranks_train_like_one_process(trained: dict[int, Path]) -> None:
    one, two = (weights(folder, epoch=1) for folder in trained.values())
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-5)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ranks", [PLAIN_PYTHON, 2])
def test_a_resumed_training_ends_like_an_uninterrupted_one(
    ranks: int, trained: dict[int, Path], tmp_path: Path
) -> None:
    shutil.copy(trained[ranks] / "epoch-0001.pt", tmp_path)
    output = train(ranks, tmp_path)
    assert output.count("resumed from") == 1
    assert "epoch 1/2" not in output
    resumed, uninterrupted = weights(tmp_path, epoch=2), weights(trained[ranks], epoch=2)
    assert all(torch.equal(resumed[name], uninterrupted[name]) for name in uninterrupted)
    assert_figures(json.loads((tmp_path / "figures.json").read_text()), max(ranks, 1), threads=1, epochs=2)


# Rank 1 is killed as soon as the first epoch has been written.
KILLED_IN_MID_EPOCH = """
import os, pathlib, signal, threading, time

def kill():
    while not pathlib.Path({checkpoint!r}).exists():
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)

if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    threading.Thread(target=kill, daemon=True).start()
"""


@pytest.mark.timeout(300)
def test_a_training_killed_in_mid_epoch_and_resumed_ends_like_an_uninterrupted_one(
    trained: dict[int, Path], tmp_path: Path
) -> None:
    killing = KILLED_IN_MID_EPOCH.format(checkpoint=str(tmp_path / "epoch-0001.pt"))
    training = as_script("torch_fashion_mnist.py", *training_arguments(tmp_path))
    killed = run_script(killing + training, 2, 90)
    assert killed.code not in (0, None), killed.output
    assert killed.left == []
    assert not (tmp_path / "epoch-0002.pt").exists()
    train(2, tmp_path)
    resumed, uninterrupted = weights(tmp_path, epoch=2), weights(trained[2], epoch=2)
    assert all(torch.equal(resumed[name], uninterrupted[name]) for name in uninterrupted)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--batch-size", 63), "cannot be split evenly over 2 ranks"),
        (("--data", "/nowhere"), "dataset-fashion-mnist"),
    ],
)
def test_a_bad_option_fails_with_a_reason(arguments: tuple[object, ...], message: str) -> None:
    ending = run_example("torch_fashion_mnist.py", 2, *arguments)
    assert ending.code not in (0, None), ending.output
    assert message in ending.output
    assert ending.left == []


@pytest.mark.timeout(120)
def test_an_unreadable_checkpoint_fails_on_all_ranks(tmp_path: Path) -> None:
    (tmp_path / "epoch-0001.pt").write_text("not a checkpoint")
    ending = run_example("torch_fashion_mnist.py", 2, "--images", 320, "--checkpoint", tmp_path)
    assert ending.code not in (0, None), ending.output
    assert ending.left == []


@pytest.mark.timeout(300)
def test_demo_writes_its_summary(tmp_path: Path) -> None:
    arguments = ("--epochs", 1, "--images", 320, "--batch-size", 64, "--output", tmp_path)
    ending = run_example("demo.py", PLAIN_PYTHON, *arguments, limit_s=240)
    assert ending.code == 0, ending.output
    assert ending.left == []
    assert "2 ranks of 1 thread" in ending.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary.keys() == {"runs", "speedup"}
    for figures, (ranks, threads) in zip(summary["runs"], [(1, 1), (1, 2), (2, 1)], strict=True):
        assert_figures(figures, ranks, threads, epochs=1)
    speeds = [figures["images_per_second"] for figures in summary["runs"]]
    assert summary["speedup"] == pytest.approx(speeds[2] / speeds[0])
