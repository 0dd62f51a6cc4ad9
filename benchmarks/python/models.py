"""The networks whose training steps are timed, with one batch of made-up data for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Workload:
    """A network, the shape of one sample, and how many samples a step trains on."""

    title: str
    make: Callable[[], nn.Module]
    sample: tuple[int, ...]
    classes: int
    batch: int
    steps: int  # in one launch, after those that warm up

    def data(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(self.batch, *self.sample), torch.randint(self.classes, (self.batch,))


def conv() -> nn.Module:
    """The convolutional net of Horovod's and PyTorch's MNIST examples: 21.8 thousand parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 10, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(320, 50),
        nn.ReLU(),
        nn.Linear(50, 10),
    )


def tensors100() -> nn.Module:
    """Little to compute and 100 gradients of at most 16 KiB."""
    return nn.Sequential(*[layer for _ in range(50) for layer in (nn.Linear(64, 64), nn.ReLU())])


def mlp(width: int) -> nn.Module:
    """Three square layers and a head; 4096 wide it has 50.4 million parameters, which are 202 MB."""
    square = [layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*square, nn.Linear(width, 10))


WORKLOADS = {
    "conv": Workload("MNIST conv, 21.8k parameters, batch 64", conv, (1, 28, 28), 10, 64, 200),
    "tensors100": Workload("50 x Linear(64), 100 tensors, batch 32", tensors100, (64,), 64, 32, 300),
    "mlp3m": Workload("MLP, 3.2M parameters, batch 32", lambda: mlp(1024), (1024,), 10, 32, 60),
    "mlp-b32": Workload("MLP, 50.4M parameters, batch 32", lambda: mlp(4096), (4096,), 10, 32, 7),
    "mlp-b256": Workload("MLP, 50.4M parameters, batch 256", lambda: mlp(4096), (4096,), 10, 256, 4),
}
