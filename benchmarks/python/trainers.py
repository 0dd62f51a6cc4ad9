"""The ways to train a network on several ranks, each for a process of its own."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from launch import FAST_HOROVOD, Launch, rank_and_size
from torch import nn

LEARNING_RATE = 0.01
Step = Callable[[], None]


class Local:
    """Independent processes, no library: what the others are compared with."""

    def wrap(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, Any]:
        """Return what takes the place of model and optimizer."""
        return model, optimizer

    def make_step(self, model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> Step:
        """Return the call that trains one batch."""
        inputs, targets = data
        wrapped, optimizer = self.wrap(model, torch.optim.SGD(model.parameters(), lr=LEARNING_RATE))

        def step() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(wrapped(inputs), targets).backward()
            optimizer.step()

        return step

    def exchange(self, tensor: torch.Tensor) -> None:
        """Bring the sum of all ranks into a tensor, or whatever takes the place of that."""

    def close(self) -> None:
        """Leave the job."""


class Idle(Local):
    """As independent processes, but hora is initialised."""

    def __init__(self) -> None:
        import hora

        hora.init()
        self._hora = hora

    def close(self) -> None:
        self._hora.shutdown()


class HorovodApi(Local):
    """hora, or Horovod, whose interface it shares."""

    def __init__(self, module: str) -> None:
        self._hvd = importlib.import_module(module)
        self._hvd.init()

    def wrap(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, Any]:
        self._hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        named = model.named_parameters()
        return model, self._hvd.DistributedOptimizer(optimizer, named_parameters=named)

    def exchange(self, tensor: torch.Tensor) -> None:
        self._hvd.allreduce_(tensor, name="exchange", op=self._hvd.Sum)

    def close(self) -> None:
        self._hvd.shutdown()


class Ddp(Local):
    """PyTorch's DistributedDataParallel over Gloo."""

    def __init__(self) -> None:
        import torch.distributed

        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        rank, size = rank_and_size()
        store = f"file://{os.environ['HORA_BENCH_FOLDER']}/store"
        torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)

    def wrap(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, Any]:
        return nn.parallel.DistributedDataParallel(model), optimizer

    def exchange(self, tensor: torch.Tensor) -> None:
        torch.distributed.all_reduce(tensor)

    def close(self) -> None:
        torch.distributed.destroy_process_group()


class Flat(Local):
    """Parameters and gradients of the model lie in one array each, which is exchanged after every step."""

    def make_step(self, model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> Step:
        inputs, targets = data
        parameters = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
        gradients = torch.zeros_like(parameters)
        at = 0
        for each in model.parameters():
            end = at + each.numel()
            each.data = parameters[at:end].view_as(each)
            each.grad = gradients[at:end].view_as(each)
            at = end
        self.begin(parameters)

        def step() -> None:
            gradients.zero_()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            self.update(parameters, gradients)

        return step

    def begin(self, parameters: torch.Tensor) -> None:
        """Make the parameters known."""

    def update(self, parameters: torch.Tensor, gradients: torch.Tensor) -> None:
        """Bring the parameters of the next step."""


class Mpi(Flat):
    """One MPI_Allreduce of all gradients, when all are there."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._mpi, self._world = MPI, MPI.COMM_WORLD

    def begin(self, parameters: torch.Tensor) -> None:
        self._world.Bcast(parameters.numpy(), 0)

    def update(self, parameters: torch.Tensor, gradients: torch.Tensor) -> None:
        self.exchange(gradients)
        parameters.sub_(gradients, alpha=LEARNING_RATE / self._world.size)

    def exchange(self, tensor: torch.Tensor) -> None:
        self._world.Allreduce(self._mpi.IN_PLACE, tensor.numpy(), self._mpi.SUM)


class ParameterServer(Flat):
    """See parameter_server.py; the last rank serves the others and ends with them."""

    def __init__(self, synchronous: bool) -> None:
        import parameter_server

        rank, size = rank_and_size()
        if rank == size - 1:
            parameter_server.Server(synchronous, LEARNING_RATE).serve()
            sys.exit()
        self._worker = parameter_server.Worker()

    def begin(self, parameters: torch.Tensor) -> None:
        self._worker.start(parameters.numpy())

    def update(self, parameters: torch.Tensor, gradients: torch.Tensor) -> None:
        self._worker.exchange(gradients.numpy(), parameters.numpy())

    def exchange(self, tensor: torch.Tensor) -> None:
        values = tensor.numpy()
        self._worker.exchange(np.asarray(values), values)

    def close(self) -> None:
        self._worker.stop()


TRAINERS: dict[str, Callable[[], Local]] = {
    "independent": Local,
    "idle": Idle,
    "hora": lambda: HorovodApi("hora.torch"),
    "ddp": Ddp,
    "horovod": lambda: HorovodApi("horovod.torch"),
    "mpi": Mpi,
    "ps-sync": lambda: ParameterServer(synchronous=True),
    "ps-async": lambda: ParameterServer(synchronous=False),
}
LAUNCHES = {
    name: Launch((name,), FAST_HOROVOD if name == "horovod" else {}, module)
    for name, module in {
        **dict.fromkeys(TRAINERS, ""),
        "horovod": "horovod",
        **dict.fromkeys(("mpi", "ps-sync", "ps-async"), "mpi4py"),
    }.items()
}
SERVED = ("ps-sync", "ps-async")  # these need one process more
