"""Images per second of a small residual network on random images, and the share of reducing gradients.

    mpirun -np 2 --bind-to none python examples/torch_synthetic_benchmark.py

The share is told by a second measurement of the same steps without any communication.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch import Tensor, nn

import hora.torch as hvd


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.body(images) + self.shortcut(images))


def make_model(width: int, blocks: int) -> nn.Module:
    """Return a network that halves the images and doubles the channels from block to block."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [Block(width << index, width << (index + 1), 2) for index in range(blocks)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width << blocks, 1000)]
    return nn.Sequential(*layers)


def measure(options: argparse.Namespace, reduced: bool) -> list[float]:
    """Return the seconds of each step, with or without reducing gradients."""
    model = make_model(options.width, options.blocks)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if reduced:
        compression = hvd.Compression.fp16 if options.fp16 else hvd.Compression.none
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), compression)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    images = torch.randn(options.batch_size, 3, options.pixels, options.pixels)
    labels = torch.randint(1000, (options.batch_size,))
    seconds = []
    for step in range(options.warmup + options.steps):
        hvd.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if step >= options.warmup:
            seconds.append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--batch-size", type=int, default=16, help="images of each rank")
    parser.add_argument("--pixels", type=int, default=96, help="height and width of the images")
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=3, help="steps that are not measured")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1, help="threads of each rank")
    parser.add_argument("--fp16", action="store_true", help="send gradients in half precision")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    hvd.init()
    alone = statistics.median(measure(options, reduced=False))
    together = statistics.median(measure(options, reduced=True))
    medians = hvd.allgather(torch.tensor([[alone, together]], dtype=torch.float64), name="medians")
    if hvd.rank() == 0:
        slowest_alone, slowest = medians.max(dim=0).values.tolist()
        print(f"ranks: {hvd.size()}")
        print(f"images/s: {hvd.size() * options.batch_size / slowest:.1f}")
        print(f"share of reducing gradients: {max(0.0, 1 - slowest_alone / slowest):.1%}")


if __name__ == "__main__":
    main()
