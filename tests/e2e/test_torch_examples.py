"""Every example for PyTorch runs on two ranks, with tiny settings."""

from __future__ import annotations

import re

import pytest
from harness.examples import run_example as start_example
from harness.mpirun import Ending

pytest.importorskip("torch")


def run_example(name: str, ranks: int, *arguments: object) -> Ending:
    ending = start_example(name, ranks, *arguments)
    assert ending.code == 0, ending.output
    assert ending.left == []
    return ending


@pytest.mark.timeout(120)
@pytest.mark.parametrize("ranks", [0, 2])
def test_elementary_loop(ranks: int) -> None:
    output = run_example("torch_elementary.py", ranks, "--steps", 30, "--rows", 32).output
    found = re.search(r"(\d) ranks, loss after 30 steps: (\d\.\d+)", output)
    assert found is not None, output
    assert int(found[1]) == max(1, ranks)
    assert float(found[2]) < 0.69  # that of a guess


@pytest.mark.timeout(120)
def test_synthetic_benchmark() -> None:
    sizes = ("--batch-size", 2, "--pixels", 32, "--width", 4, "--blocks", 2, "--warmup", 1, "--steps", 3)
    output = run_example("torch_synthetic_benchmark.py", 2, *sizes, "--fp16").output
    assert re.search(r"images/s: \d+\.\d", output), output
    assert re.search(r"share of reducing gradients: \d+\.\d%", output), output


@pytest.mark.timeout(120)
def test_uneven_data() -> None:
    output = run_example("torch_join_uneven.py", 2, "--epochs", 2, "--batches", 2).output
    assert output.count("rank 1 was the last to join") == 2


@pytest.mark.timeout(120)
def test_gan() -> None:
    assert "mean radius" in run_example("torch_gan.py", 2, "--steps", 10, "--rows", 8).output


@pytest.mark.timeout(120)
def test_accumulation() -> None:
    output = run_example("torch_accumulation.py", 2, "--steps", 5, "--passes", 3).output
    reduced = re.search(r"tensors reduced per step of 3 passes: (\d+\.\d+)", output)
    assert reduced, output
    # Were gradients reduced in every pass, there would be three at least, even of one bucket.
    assert 1 <= float(reduced[1]) < 3


@pytest.mark.timeout(120)
def test_process_sets() -> None:
    output = run_example("torch_process_sets.py", 2, "--steps", 5, "--hidden", 2, 3).output
    assert "ranks [0]: 2 hidden units" in output
    assert "ranks [1]: 3 hidden units" in output


@pytest.mark.timeout(120)
def test_parallel_experiments() -> None:
    arguments = ("--lr", 0.01, 0.1, "--hidden", 2, 3, -1, "--steps", 5)
    output = run_example("parallel_experiments.py", 2, *arguments).output
    lines = [line.split() for line in output.splitlines() if re.match(r"\s*0\.\d", line)]
    assert [line[:2] for line in lines] == [
        [lr, hidden] for lr in ("0.01", "0.1") for hidden in ("2", "3", "-1")
    ]
    assert [line[3] for line in lines] == ["0", "1", "0", "1", "0", "1"]
    assert all(("RuntimeError:" in line) == (line[1] == "-1") for line in lines), output
    assert "best: lr" in output
