"""Two models trained side by side, each by half of the ranks.

mpirun -np 4 --bind-to none python examples/torch_process_sets.py
"""

from __future__ import annotations

import argparse

import torch

import hora.torch as hvd


def train(hidden: int, steps: int, members: hvd.ProcessSet) -> float:
    """Train a model of so many hidden units and return its loss, averaged over the members."""
    torch.manual_seed(hidden)
    model = torch.nn.Sequential(torch.nn.Linear(2, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.02),
        named_parameters=model.named_parameters(),
        process_set=members,
    )
    draw = torch.Generator().manual_seed(hvd.rank())
    loss = torch.zeros(())
    for _ in range(steps):
        points = torch.rand(64, 2, generator=draw)
        optimizer.zero_grad()
        loss = (model(points) - (6 * points).sin().prod(dim=1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    return float(hvd.allreduce(loss.detach(), name="loss", process_set=members))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--hidden", type=int, nargs=2, default=(4, 64), help="hidden units of the two models")
    options = parser.parse_args()
    hvd.init()
    if hvd.size() < 2:
        parser.error("two models need at least two ranks: start this with mpirun -np 2 or more")
    middle = hvd.size() // 2
    # Every rank adds every set, also those that it is no member of.
    sets = [hvd.add_process_set(range(middle)), hvd.add_process_set(range(middle, hvd.size()))]
    number = int(hvd.rank() >= middle)
    loss = train(options.hidden[number], options.steps, sets[number])
    losses = hvd.allgather_object((options.hidden[number], loss))
    if hvd.rank() == 0:
        for (hidden, loss), members in ((losses[each.ranks[0]], each) for each in sets):
            print(f"ranks {members.ranks}: {hidden} hidden units, loss {loss:.4f}")


if __name__ == "__main__":
    main()
