"""Training with DistributedOptimizer against one process that has the whole batch.

``--device cpu`` runs the same on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import arrays
import report
import torch

import hora
import hora.torch as hvd

STEPS = 4
ROWS = 8  # of each rank


def make_model(seed: int, device: str) -> torch.nn.Module:
    torch.manual_seed(seed)
    layers = (torch.nn.Linear(32, 300), torch.nn.ReLU(), torch.nn.Linear(300, 10))
    return torch.nn.Sequential(*layers).to(device)


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def batch(step: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the batch of all ranks."""
    draw = torch.Generator().manual_seed(1000 + step)
    rows = ROWS * hora.size()
    inputs = torch.randn(rows, 32, generator=draw)
    return inputs.to(device), torch.randint(10, (rows,), generator=draw).to(device)


def train(
    model: torch.nn.Module, optimizer: Any, share: Callable[[torch.Tensor], torch.Tensor], device: str
) -> list[torch.Tensor]:
    """Train on what `share` takes of each batch and return the parameters."""
    for step in range(STEPS):
        inputs, labels = (share(each) for each in batch(step, device))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def own_rows(all_rows: torch.Tensor) -> torch.Tensor:
    return all_rows[hora.rank() * ROWS : (hora.rank() + 1) * ROWS]


def train_distributed(device: str, **options: Any) -> list[torch.Tensor]:
    """Train from parameters that only the first rank has at the beginning."""
    model = make_model(hora.rank(), device)
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), **options)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return train(model, optimizer, own_rows, device)


def main() -> None:
    parser = arrays.parser(__doc__)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    if arguments.device == "cpu":
        hora.init()
    else:
        arrays.start(arguments)
    torch.backends.cuda.matmul.allow_tf32 = False
    reference = make_model(0, arguments.device)
    expected = train(reference, sgd(reference), lambda rows: rows, arguments.device)
    ways: dict[str, tuple[dict[str, Any], float]] = {
        "plain": ({}, 1e-5),
        "compressed to float16": ({"compression": hvd.Compression.fp16}, 2e-3),
        "in two groups": ({"groups": 2}, 1e-5),
    }
    wrong = []
    for way, (options, tolerance) in ways.items():
        got = train_distributed(arguments.device, **options)
        off = max(float((one - other).abs().max()) for one, other in zip(got, expected, strict=True))
        report.first_row(way=way, ranks=hora.size(), steps=STEPS, largest_difference=off)
        if not off <= tolerance:
            wrong.append(f"{way}: parameters are off by {off:.3g}")
    report.finish(wrong, f"{STEPS} steps in {len(ways)} ways, as one process")


if __name__ == "__main__":
    main()
