"""What a library of collectives has to offer to be compared.

A contender makes, for one operation and one buffer, the call that is timed, so that views, names and buffer
descriptions are not made again in every iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
OPS = ("allreduce", "broadcast", "allgather", "alltoall", "reducescatter")


@dataclass(frozen=True)
class Memory:
    """What a call works on; halves are arrays of int16 with their bits."""

    op: str
    dtype: str
    work: Array  # input; in place also the result
    output: Array  # for the result of operations that do not work in place


class Contender:
    """A library of collectives on this rank."""

    checked = True  # whether it computes what the operation promises

    def allocate(self, count: int, dtype: str) -> Array | None:
        """Return memory of its own to work on, or None for the memory that contenders share."""
        return None

    def prepare(self, memory: Memory) -> Callable[[], Any]:
        """Return the call of one operation; raise NotImplementedError where it has none.

        ``allreduce`` (sum) and ``broadcast`` (from rank 0) work in place. The others write `memory.output`,
        unless the call returns an array of its own.
        """
        raise NotImplementedError

    def prepare_many(self, tensors: Sequence[Array], grouped: bool) -> Callable[[], Any]:
        """Return the call that sums many float32 arrays in place, one by one or as a group."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the job."""


def only_float32(memory: Memory) -> None:
    if memory.dtype != "float32":
        raise NotImplementedError(f"it is not measured with {memory.dtype}")


def without_result(call: Callable[[], Any]) -> Callable[[], None]:
    """Return a call that does not return what only stands for its completion."""

    def run() -> None:
        call()

    return run
