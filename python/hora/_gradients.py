"""Gradients of the collectives, for frameworks that record operations.

Every rank has its own loss. What is differentiated is the *sum* of the ranks' losses for allreduce and their
*mean* for allgather and broadcast, which is Horovod's convention:

- allreduce sends the gradient through the same reduction and factors; Min, Max and Product have no gradient.
- allgather averages the gradient over the ranks; each rank takes its own rows of it.
- broadcast averages the gradient over the ranks and gives it to the root; the others get zeros.

The collectives of a backward pass are unnamed: all ranks must run the same backward passes in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hora import _core
from hora._adapter import Tensor
from hora._arguments import Average, Sum, choose_op
from hora._handle import synchronize
from hora.compression import Compressor
from hora.process_sets import GlobalProcessSet

if TYPE_CHECKING:
    from hora._ops import Collectives

__all__ = ["record_allgather", "record_allreduce", "record_broadcast"]


def record_allreduce(
    collectives: Collectives[Tensor],
    tensor: Tensor,
    average: bool | None,
    name: str | None,
    compression: Compressor,
    op: int | None,
    prescale: float,
    postscale: float,
    process_set: GlobalProcessSet,
) -> Tensor:
    """Run allreduce as one recorded operation."""

    def reduce(value: Tensor, name: str | None) -> Tensor:
        return collectives.allreduce(value, average, name, compression, op, prescale, postscale, process_set)

    def backward(gradient: Tensor) -> Tensor:
        if choose_op(average, op) not in (Average, Sum):
            raise NotImplementedError("allreduce has a gradient for op=Average and op=Sum only")
        return reduce(gradient, None)

    return collectives.adapter.record(tensor, lambda value: reduce(value, name), backward)


def record_allgather(
    collectives: Collectives[Tensor], tensor: Tensor, name: str | None, process_set: GlobalProcessSet
) -> Tensor:
    """Run allgather as one recorded operation."""
    start = stop = 0

    def forward(value: Tensor) -> Tensor:
        nonlocal start, stop
        handle = collectives.start_allgather(value, name, process_set)
        result = synchronize(handle)
        rank = _core.rank()
        start, stop = sum(handle.sizes[:rank]), sum(handle.sizes[: rank + 1])
        return result

    def backward(gradient: Tensor) -> Tensor:
        averaged = collectives.allreduce(gradient, op=Average, process_set=process_set)
        return collectives.adapter.rows(averaged, start, stop)

    return collectives.adapter.record(tensor, forward, backward)


def record_broadcast(
    collectives: Collectives[Tensor],
    tensor: Tensor,
    root_rank: int,
    name: str | None,
    process_set: GlobalProcessSet,
) -> Tensor:
    """Run broadcast as one recorded operation."""

    def forward(value: Tensor) -> Tensor:
        return collectives.broadcast(value, root_rank, name, process_set)

    def backward(gradient: Tensor) -> Tensor:
        averaged = collectives.allreduce(gradient, op=Average, process_set=process_set)
        return averaged if _core.rank() == root_rank else collectives.adapter.zeros_like(averaged)

    return collectives.adapter.record(tensor, forward, backward)
