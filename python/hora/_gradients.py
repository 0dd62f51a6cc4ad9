"""Gradients of the collectives, for frameworks that record operations.

Every rank has its own loss. What is differentiated follows Horovod; ``size`` is that of the process set:

- allreduce and alltoall: the *sum* of the ranks' losses.
- allgather and broadcast: their *mean*.
- reducescatter: their sum *times size*.

So the gradients are:

- allreduce sends the gradient through the same reduction and factors; Min, Max and Product have no gradient.
- allgather averages the gradient over the ranks; each rank takes its own rows of it.
- broadcast averages the gradient over the ranks and gives it to the root; the others get zeros.
- alltoall sends every row of the gradient back to where the row came from.
- reducescatter gathers the gradient, times both factors, and times size when its op is Sum.

Grouped calls have the gradients of their members. The collectives of a backward pass are unnamed: all ranks
must run the same backward passes in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hora import _core
from hora._adapter import Adapter, Tensor
from hora._arguments import Average, Sum, set_id
from hora._handle import synchronize
from hora.compression import Compressor
from hora.process_sets import ProcessSet

if TYPE_CHECKING:
    from hora._ops import Collectives

__all__ = [
    "own_rows",
    "record_allgather",
    "record_allreduce",
    "record_alltoall",
    "record_broadcast",
    "record_group",
    "record_reducescatter",
    "require_gradient",
    "scatter_scale",
]


def record_one(
    adapter: Adapter[Tensor],
    tensor: Tensor,
    forward: Callable[[Tensor], Tensor],
    backward: Callable[[Tensor], Tensor],
) -> Tensor:
    """Run an operation of one tensor as a recorded one."""
    return adapter.record(
        [tensor], lambda tensors: [forward(tensors[0])], lambda gradients: [backward(gradients[0])]
    )[0]


def record_group(
    adapter: Adapter[Tensor],
    tensors: list[Tensor],
    forward: Callable[[list[Tensor]], list[Tensor]],
    backward: Callable[[list[Tensor], list[int]], list[Tensor]],
) -> list[Tensor]:
    """Run a grouped operation as a recorded one.

    ``backward`` gets the gradients of those members that are of floating point, and their numbers.
    """

    def all_gradients(gradients: list[Tensor]) -> list[Tensor]:
        numbers = [number for number, each in enumerate(gradients) if "float" in adapter.dtype_name(each)]
        for number, gradient in zip(
            numbers, backward([gradients[number] for number in numbers], numbers), strict=True
        ):
            gradients[number] = gradient
        return gradients

    return adapter.record(tensors, forward, all_gradients)


def require_gradient(average: bool | None, op: int | None) -> None:
    """Refuse the backward pass of a reduction that has none."""
    if average is None and op not in (None, Average, Sum):
        raise NotImplementedError("allreduce has a gradient for op=Average and op=Sum only")


def own_rows(adapter: Adapter[Tensor], gathered: Tensor, sizes: list[int], process_set: ProcessSet) -> Tensor:
    """Return this rank's rows of a tensor that was gathered; ``sizes`` are the rows of each rank."""
    own = _core.process_set_ranks(set_id(process_set)).index(_core.rank())
    first = sum(sizes[:own])
    return adapter.rows(gathered, first, first + sizes[own])


def scatter_scale(
    adapter: Adapter[Tensor], gradient: Tensor, op: int, factor: float, process_set: ProcessSet
) -> Tensor:
    """Return a reducescatter's gradient before it is gathered; ``factor`` is that of both scale factors."""
    if op == Sum:
        factor *= len(_core.process_set_ranks(set_id(process_set)))
    return gradient if factor == 1 else adapter.scaled(gradient, factor)


def record_allreduce(
    collectives: Collectives[Tensor],
    tensor: Tensor,
    average: bool | None,
    name: str | None,
    compression: Compressor,
    op: int | None,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> Tensor:
    """Run allreduce as one recorded operation."""

    def reduce(value: Tensor, name: str | None) -> Tensor:
        return collectives.allreduce(value, average, name, compression, op, prescale, postscale, process_set)

    def backward(gradient: Tensor) -> Tensor:
        require_gradient(average, op)
        return reduce(gradient, None)

    return record_one(collectives.adapter, tensor, lambda value: reduce(value, name), backward)


def record_allgather(
    collectives: Collectives[Tensor], tensor: Tensor, name: str | None, process_set: ProcessSet
) -> Tensor:
    """Run allgather as one recorded operation."""
    sizes: list[int] = []

    def forward(value: Tensor) -> Tensor:
        handle = collectives.start_allgather(value, name, process_set)
        result = synchronize(handle)
        sizes.extend(handle.sizes)
        return result

    def backward(gradient: Tensor) -> Tensor:
        averaged = collectives.allreduce(gradient, op=Average, process_set=process_set)
        return own_rows(collectives.adapter, averaged, sizes, process_set)

    return record_one(collectives.adapter, tensor, forward, backward)


def record_broadcast(
    collectives: Collectives[Tensor],
    tensor: Tensor,
    root_rank: int,
    name: str | None,
    process_set: ProcessSet,
) -> Tensor:
    """Run broadcast as one recorded operation."""

    def forward(value: Tensor) -> Tensor:
        return collectives.broadcast(value, root_rank, name, process_set)

    def backward(gradient: Tensor) -> Tensor:
        averaged = collectives.allreduce(gradient, op=Average, process_set=process_set)
        return averaged if _core.rank() == root_rank else collectives.adapter.zeros_like(averaged)

    return record_one(collectives.adapter, tensor, forward, backward)


def record_alltoall(
    collectives: Collectives[Tensor],
    tensor: Tensor,
    splits: object,
    name: str | None,
    process_set: ProcessSet,
) -> tuple[Tensor, list[int]]:
    """Run alltoall as one recorded operation; also return the number of rows from each rank."""
    received: list[int] = []

    def forward(value: Tensor) -> Tensor:
        handle = collectives.start_alltoall(value, splits, name, process_set)
        result = synchronize(handle)
        received.extend(handle.sizes)
        return result

    def backward(gradient: Tensor) -> Tensor:
        return collectives.alltoall(gradient, received, process_set=process_set)[0]

    return record_one(collectives.adapter, tensor, forward, backward), received


def record_reducescatter(
    collectives: Collectives[Tensor],
    tensor: Tensor,
    name: str | None,
    compression: Compressor,
    op: int,
    process_set: ProcessSet,
    prescale: float,
    postscale: float,
) -> Tensor:
    """Run reducescatter as one recorded operation."""

    def forward(value: Tensor) -> Tensor:
        return collectives.reducescatter(value, name, compression, op, process_set, prescale, postscale)

    def backward(gradient: Tensor) -> Tensor:
        factor = float(prescale) * float(postscale)
        scaled = scatter_scale(collectives.adapter, gradient, op, factor, process_set)
        return collectives.allgather(scaled, process_set=process_set)

    return record_one(collectives.adapter, tensor, forward, backward)
