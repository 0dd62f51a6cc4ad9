"""The elementary training loop: what a script needs to train on many ranks.

python examples/torch_elementary.py
mpirun -np 2 --bind-to none python examples/torch_elementary.py
"""

from __future__ import annotations

import argparse

import torch

import hora.torch as hvd


def make_data(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this rank's points of the plane, and whether each lies inside a circle."""
    draw = torch.Generator().manual_seed(hvd.rank())
    points = 2 * torch.rand(rows, 2, generator=draw) - 1
    return points, (points.square().sum(dim=1, keepdim=True) < 0.5).float()


def train(steps: int, rows: int) -> float:
    """Return the loss of the last step, averaged over all ranks."""
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    # Every rank's gradient counts as much as before, so the learning rate may grow with the batch.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    points, inside = make_data(rows)
    loss = torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(points), inside)
        loss.backward()
        optimizer.step()
    hvd.check_consistency(model)
    return float(hvd.allreduce(loss.detach(), name="loss"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rows", type=int, default=256, help="points of each rank")
    options = parser.parse_args()
    hvd.init()
    loss = train(options.steps, options.rows)
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks, loss after {options.steps} steps: {loss:.4f}")


if __name__ == "__main__":
    main()
