"""Says where ranks begin and what the slowest needed; never timed itself."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from shared_page import SharedPage, create_page

Seconds = NDArray[np.float64]


class Referee(Protocol):
    """What a measurement needs of the ranks besides the contenders."""

    rank: int
    size: int

    def barrier(self) -> None:
        """Wait for all ranks."""

    def largest(self, values: Seconds) -> Seconds:
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

    def largest(self, values: Seconds) -> Seconds:
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

    def largest(self, values: Seconds) -> Seconds:
        return self._hora.allreduce(values, op=self._hora.Max)

    def from_root(self, text: str) -> str:
        return str(self._hora.broadcast_object(text, root_rank=0))


def find_referee() -> Referee:
    """Return mpi4py where it is installed, else hora."""
    try:
        return MpiReferee()
    except ImportError:
        return HoraReferee()


def open_page(referee: Referee) -> SharedPage:
    """Return a page shared by all ranks, whose file is gone already."""
    path = Path(referee.from_root(str(create_page()) if referee.rank == 0 else ""))
    page = SharedPage(path, referee.rank, referee.size)
    referee.barrier()
    if referee.rank == 0:
        path.unlink()
    return page
