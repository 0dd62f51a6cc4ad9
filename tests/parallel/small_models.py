"""Small models and data for tests of optimizers; every rank can compute those of all ranks."""

from __future__ import annotations

from typing import Any

import torch

import hora


def linear(seed: int, inputs: int = 4, outputs: int = 4) -> torch.nn.Linear:
    torch.manual_seed(seed)
    return torch.nn.Linear(inputs, outputs).double()


def sgd(model: torch.nn.Module, lr: float = 0.1, **options: Any) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=lr, **options)


def data(seed: int, rank: int, rows: int = 3, columns: int = 4) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randn(rows, columns, generator=draw, dtype=torch.float64)


def assert_close(model: torch.nn.Module, expected: torch.nn.Module) -> None:
    for mine, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)


def reductions() -> int:
    """Return how many tensors this rank has reduced so far."""
    return hora.metrics()["tensors"]


def reductions_of(steps: int, gradients: int, apart: int = 0) -> int:
    """Return how many tensors an optimizer reduces in its first steps.

    In the first they are the gradients and a vote on putting them into a bucket, then the bucket and the
    gradients that stay apart, such as those of explicit groups.
    """
    return gradients + 1 + (steps - 1) * (apart + (gradients > apart)) if steps else 0
