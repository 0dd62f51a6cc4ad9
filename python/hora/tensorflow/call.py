"""What a collective needs besides its tensors, and who runs it."""

from __future__ import annotations

import functools
import re
import warnings
from dataclasses import dataclass, replace
from typing import Any, Protocol

import tensorflow as tf

from hora import _core
from hora._arguments import Sum

__all__ = ["Kernels", "Terms", "check_dtype", "graph_label", "kernels"]

Tensor = Any  # tf.Tensor, in eager mode or of a graph


@dataclass(frozen=True)
class Terms:
    """The arguments of one call, the same on all ranks.

    Attributes
    ----------
    name : str or None
        Which calls belong together. Without it, calls in eager mode belong together by their order and nodes
        of a graph by their names, since nodes run in any order.
    node : str or None
        How to call the node of the graph.
    patience_us : int
        Of a reduction in a graph: so long the thread of TensorFlow that runs it works for it, and for nothing
        else in the graph, before it leaves it to threads of hora.
    """

    name: str | None = None
    process_set: int = 0
    reduction: int = Sum
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = 0
    node: str | None = None
    patience_us: int = 0

    def part(self, number: int) -> Terms:
        """Return the terms of one of the operations that a call is made of."""
        return self if self.name is None else replace(self, name=f"{self.name}/{number}")


class Kernels(Protocol):
    """Runs collectives, in eager mode and in graphs. Results are new tensors."""

    def allreduce(self, tensors: list[Tensor], terms: Terms) -> list[Tensor]:
        """Reduce each tensor."""
        ...

    def allgather(self, tensors: list[Tensor], terms: Terms) -> tuple[list[Tensor], Tensor]:
        """Concatenate rows; also return, for each tensor, how many rows came from each rank."""
        ...

    def broadcast(self, tensors: list[Tensor], terms: Terms) -> list[Tensor]:
        """Copy the root's tensors."""
        ...

    def alltoall(self, tensor: Tensor, splits: Tensor, terms: Terms) -> tuple[Tensor, Tensor]:
        """Exchange rows; also return how many came from each rank."""
        ...

    def reducescatter(self, tensors: list[Tensor], terms: Terms) -> list[Tensor]:
        """Reduce each tensor and return this rank's rows."""
        ...

    def join(self) -> Tensor:
        """Wait until all ranks have joined, and return the last one."""
        ...

    def world(self, number: str, process_set: int) -> Tensor:
        """Return a number of the job when the graph runs."""
        ...


@functools.cache
def kernels() -> Kernels:
    """Return the native kernels, or, with a notice, those in Python where TensorFlow does not take them."""
    from hora.tensorflow import native, python_kernels

    problem = native.problem()
    if problem is None:
        return native.NativeKernels()
    warnings.warn(
        f"hora.tensorflow works without its native kernels, because {problem}: collectives inside of a "
        "tf.function then run one after the other, in the order of the program, and hold a thread each",
        RuntimeWarning,
        stacklevel=2,
    )
    return python_kernels.PythonKernels()


def graph_label() -> str:
    """Return a name for the graph that is being built, the same on all ranks.

    TensorFlow numbers the functions it makes of loops and branches, each process for itself.
    """
    graph = tf.compat.v1.get_default_graph()
    return re.sub(r"_\d+$", "", getattr(graph, "name", "graph"))


def check_dtype(tensor: Tensor) -> Tensor:
    """Return the tensor if its dtype can be sent."""
    if tensor.dtype.name not in _core.DTYPES:
        raise ValueError(f"tensors of {tensor.dtype.name} are not supported, only {', '.join(_core.DTYPES)}")
    return tensor
