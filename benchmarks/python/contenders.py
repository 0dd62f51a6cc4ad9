"""The libraries that are compared: each offers the same three blocking collectives over the same memory.

A contender makes, for one operation and one buffer, the call that is timed, so that views, names and buffer
descriptions are not made again in every iteration.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
OPS = ("allreduce", "broadcast", "allgather")


class Contender(Protocol):
    """A library of collectives on this rank."""

    def prepare(self, op: str, work: Array, gathered: Array) -> Callable[[], Any]:
        """Return the call of one operation.

        ``allreduce`` (sum) and ``broadcast`` (from rank 0) work in place on `work`. ``allgather`` reads it
        and writes `gathered`, unless the call returns an array of its own.
        """

    def close(self) -> None:
        """Leave the job."""


class Referee(Protocol):
    """Says where ranks begin and what the slowest needed; never timed."""

    rank: int
    size: int

    def barrier(self) -> None:
        """Wait for all ranks."""

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the element-wise maximum over the ranks."""

    def from_root(self, text: str) -> str:
        """Return rank 0's text on every rank."""


class MpiReferee:
    """mpi4py: its barrier lets ranks go within about a microsecond of each other."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self.rank, self.size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size

    def barrier(self) -> None:
        self._mpi.COMM_WORLD.Barrier()

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        result = np.empty_like(values)
        self._mpi.COMM_WORLD.Allreduce(values, result, self._mpi.MAX)
        return result

    def from_root(self, text: str) -> str:
        return str(self._mpi.COMM_WORLD.bcast(text))


class HoraReferee:
    """Takes mpi4py's place where that is not installed."""

    def __init__(self) -> None:
        import hora

        hora.init()
        self._hora = hora
        self.rank, self.size = hora.rank(), hora.size()

    def barrier(self) -> None:
        self._hora.barrier()

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._hora.allreduce(values, op=self._hora.Max)

    def from_root(self, text: str) -> str:
        return str(self._hora.broadcast_object(text, root_rank=0))


class Hora:
    """hora on PyTorch tensors."""

    def __init__(self, referee: Referee) -> None:
        import torch

        import hora.torch as hvd

        hvd.init()
        self._torch, self._hvd = torch, hvd

    def prepare(self, op: str, work: Array, gathered: Array) -> Callable[[], Any]:
        hvd, tensor, name = self._hvd, self._torch.from_numpy(work), f"{op}.{work.nbytes}"
        if op == "allreduce":
            return lambda: hvd.allreduce_(tensor, name=name, op=hvd.Sum)
        if op == "broadcast":
            return lambda: hvd.broadcast_(tensor, root_rank=0, name=name)
        return lambda: hvd.allgather(tensor, name=name)

    def close(self) -> None:
        self._hvd.shutdown()


class HoraNumpy:
    """hora on NumPy arrays."""

    def __init__(self, referee: Referee) -> None:
        import hora

        hora.init()
        self._hora = hora

    def prepare(self, op: str, work: Array, gathered: Array) -> Callable[[], Any]:
        hora, name = self._hora, f"numpy.{op}.{work.nbytes}"
        if op == "allreduce":
            return lambda: hora.allreduce_(work, name=name, op=hora.Sum)
        if op == "broadcast":
            return lambda: hora.broadcast_(work, root_rank=0, name=name)
        return lambda: hora.allgather(work, name=name)

    def close(self) -> None:
        self._hora.shutdown()


class Mpi:
    """MPI's own collectives through mpi4py."""

    def __init__(self, referee: Referee) -> None:
        from mpi4py import MPI

        self._mpi = MPI

    def prepare(self, op: str, work: Array, gathered: Array) -> Callable[[], Any]:
        mpi, world = self._mpi, self._mpi.COMM_WORLD
        source, target = [work, mpi.FLOAT], [gathered, mpi.FLOAT]
        if op == "allreduce":
            return lambda: world.Allreduce(mpi.IN_PLACE, source, mpi.SUM)
        if op == "broadcast":
            return lambda: world.Bcast(source, 0)
        return lambda: world.Allgather(source, target)

    def close(self) -> None:
        pass


class Gloo:
    """Gloo through torch.distributed, over the loopback interface."""

    def __init__(self, referee: Referee) -> None:
        import torch
        import torch.distributed

        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self._folder = referee.from_root(tempfile.mkdtemp(prefix="hora-sweep-") if referee.rank == 0 else "")
        self._torch, self._distributed = torch, torch.distributed
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{self._folder}/store", rank=referee.rank, world_size=referee.size
        )

    def prepare(self, op: str, work: Array, gathered: Array) -> Callable[[], Any]:
        distributed = self._distributed
        tensor, output = self._torch.from_numpy(work), self._torch.from_numpy(gathered)
        if op == "allreduce":
            return lambda: distributed.all_reduce(tensor)
        if op == "broadcast":
            return lambda: distributed.broadcast(tensor, 0)
        return lambda: distributed.all_gather_single(output, tensor)

    def close(self) -> None:
        self._distributed.destroy_process_group()
        shutil.rmtree(self._folder, ignore_errors=True)


CONTENDERS: dict[str, Callable[[Referee], Contender]] = {
    "hora": Hora,
    "hora-numpy": HoraNumpy,
    "mpi": Mpi,
    "gloo": Gloo,
}


def find_referee() -> Referee:
    """Return mpi4py where it is installed, else hora."""
    try:
        return MpiReferee()
    except ImportError:
        return HoraReferee()
