"""Large batches out of several backward passes, with clipped gradients and one reduction per step.

mpirun -np 2 --bind-to none python examples/torch_accumulation.py
"""

from __future__ import annotations

import argparse

import torch

import hora.torch as hvd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--passes", type=int, default=4, help="backward passes of a step")
    parser.add_argument("--max-norm", type=float, default=1.0)
    options = parser.parse_args()
    hvd.init()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.AdamW(model.parameters(), lr=0.01),
        named_parameters=model.named_parameters(),
        backward_passes_per_step=options.passes,
    )
    draw = torch.Generator().manual_seed(hvd.rank())
    norm = torch.zeros(())
    before = hvd.metrics()["tensors"]
    for _ in range(options.steps):
        optimizer.zero_grad()
        for _ in range(options.passes):
            inputs = torch.randn(16, 8, generator=draw)
            loss = (model(inputs) - inputs.prod(dim=1, keepdim=True)).square().mean()
            (loss / options.passes).backward()
        optimizer.synchronize()  # the gradients are those of all ranks and passes from here on
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), options.max_norm)
        with optimizer.skip_synchronize():
            optimizer.step()
    reduced = hvd.metrics()["tensors"] - before
    hvd.check_consistency(model)
    if hvd.rank() == 0:
        print(f"last norm before clipping: {norm:.3f}")
        print(f"tensors reduced per step of {options.passes} passes: {reduced / options.steps:.2f}")


if __name__ == "__main__":
    main()
