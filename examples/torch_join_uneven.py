"""Ranks with different numbers of batches: those that are done join, the others go on.

mpirun -np 3 --bind-to none python examples/torch_join_uneven.py
"""

from __future__ import annotations

import argparse

import torch

import hora.torch as hvd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batches", type=int, default=4, help="batches of rank 0; each next rank has 2 more")
    options = parser.parse_args()
    hvd.init()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05), named_parameters=model.named_parameters()
    )
    draw = torch.Generator().manual_seed(hvd.rank())
    for epoch in range(options.epochs):
        steps = options.batches + 2 * hvd.rank()
        for _ in range(steps):
            inputs = torch.randn(16, 8, generator=draw)
            optimizer.zero_grad()
            (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean().backward()
            optimizer.step()
        last = hvd.join()
        # A rank that joined early took no part in the last steps: it gets the weights of one that did.
        hvd.broadcast_parameters(model.state_dict(), root_rank=last)
        hvd.broadcast_optimizer_state(optimizer, root_rank=last)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: rank {last} was the last to join")
    hvd.check_consistency(model)


if __name__ == "__main__":
    main()
