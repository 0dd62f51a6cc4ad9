"""A generative adversarial network: two models, two optimizers, in turn.

    mpirun -np 2 --bind-to none python examples/torch_gan.py

The generator learns to draw points of a ring. Its loss runs backward through the critic, whose gradients of
that pass are dropped.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import Tensor, nn

import hora.torch as hvd

NOISE = 4


def make_model(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, outputs)
    )


def real_points(rows: int) -> Tensor:
    """Return points of a ring."""
    angles = 2 * math.pi * torch.rand(rows)
    return torch.stack([angles.cos(), angles.sin()], dim=1) * (1 + 0.05 * torch.randn(rows, 1))


def critic_loss(critic: nn.Module, real: Tensor, drawn: Tensor) -> Tensor:
    return (nn.functional.softplus(-critic(real)) + nn.functional.softplus(critic(drawn))).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rows", type=int, default=64, help="points of each rank and step")
    options = parser.parse_args()
    hvd.init()
    torch.manual_seed(hvd.rank())
    generator, critic = make_model(NOISE, 2), make_model(2, 1)
    optimizers = []
    for model in (generator, critic):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.5, 0.9))
        optimizers.append(hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters()))
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for_generator, for_critic = optimizers
    for _ in range(options.steps):
        for_critic.zero_grad()  # also waits for the gradients of the generator's pass
        drawn = generator(torch.randn(options.rows, NOISE))
        critic_loss(critic, real_points(options.rows), drawn.detach()).backward()
        for_critic.step()

        for_generator.zero_grad()
        nn.functional.softplus(-critic(drawn)).mean().backward()
        for_generator.step()
    for_critic.zero_grad()
    for model in (generator, critic):
        hvd.check_consistency(model)
    with torch.no_grad():
        radius = generator(torch.randn(1000, NOISE)).norm(dim=1).mean()
    radius = hvd.allreduce(radius, name="radius")
    if hvd.rank() == 0:
        print(f"mean radius of drawn points (real ones: 1.0): {radius:.2f}")


if __name__ == "__main__":
    main()
