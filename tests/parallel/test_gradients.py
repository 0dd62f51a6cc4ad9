"""Backward of the blocking collectives equals the numeric derivative, in the convention that they document.

What is differentiated is the sum of the ranks' losses for allreduce and alltoall, their mean for allgather
and broadcast, and their sum times the number of ranks for reducescatter.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness.peers import Peers

import hora.torch as hvd

RANKS = (2, 3)
Function = Callable[[torch.Tensor], torch.Tensor]


def alltoall(tensor: torch.Tensor) -> torch.Tensor:
    """Send all rows but one to the next rank, that one to rank 0; the others get nothing."""
    splits = [0] * hvd.size()
    splits[(hvd.rank() + 1) % hvd.size()] += len(tensor) - 1
    splits[0] += 1
    return hvd.alltoall(tensor, splits)[0]


def gathered_pair(tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat(hvd.grouped_allgather([tensor[:1], 2 * tensor]))


def scattered_pair(tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat(hvd.grouped_reducescatter([tensor, tensor.square()], op=hvd.Sum, prescale_factor=2))


def reduced_pair(tensor: torch.Tensor) -> torch.Tensor:
    counts = torch.ones(2, dtype=torch.int64)
    first, _, second = hvd.grouped_allreduce([tensor, counts, tensor.square()], op=hvd.Sum, name="pair")
    return torch.cat([first, second])


# Each with the scale of the differentiated loss: the sum of the ranks' losses, their mean, or sum times size.
COLLECTIVES: dict[str, tuple[Function, str]] = {
    "allreduce sum": (lambda tensor: hvd.allreduce(tensor, op=hvd.Sum), "sum"),
    "allreduce average": (lambda tensor: hvd.allreduce(tensor), "sum"),
    "allreduce scaled": (
        lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=2, postscale_factor=3),
        "sum",
    ),
    "allgather": (lambda tensor: hvd.allgather(tensor), "mean"),
    "broadcast": (lambda tensor: hvd.broadcast(tensor, 1), "mean"),
    "alltoall": (alltoall, "sum"),
    "alltoall without splits": (lambda tensor: hvd.alltoall(tensor), "sum"),
    "reducescatter sum": (lambda tensor: hvd.reducescatter(tensor, op=hvd.Sum), "sum times size"),
    "reducescatter average": (lambda tensor: hvd.reducescatter(tensor), "sum times size"),
    "reducescatter scaled": (
        lambda tensor: hvd.reducescatter(tensor, prescale_factor=2, postscale_factor=3),
        "sum times size",
    ),
    "grouped allreduce": (reduced_pair, "sum"),
    "grouped allgather": (gathered_pair, "mean"),
    "grouped reducescatter": (scattered_pair, "sum times size"),
}
RAGGED = ("allgather", "grouped allgather", "alltoall")


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_equals_central_differences(collective: str, peers: Peers) -> None:
    function, convention = COLLECTIVES[collective]
    scale = {"sum": 1, "mean": 1 / peers.size, "sum times size": peers.size}[convention]
    rows = [1 + rank if collective in RAGGED else peers.size for rank in range(peers.size)]
    inputs = [
        torch.randn(rows[rank], 2, dtype=torch.float64, generator=torch.Generator().manual_seed(rank))
        for rank in range(peers.size)
    ]
    mine = inputs[peers.rank].clone().requires_grad_()

    def loss(tensor: torch.Tensor) -> torch.Tensor:
        result = function(tensor)
        weights = torch.arange(1.0, result.numel() + 1, dtype=torch.float64).view_as(result) + peers.rank
        return (weights * result.square()).sum()

    def total() -> float:
        each = peers.exchange(loss(inputs[peers.rank]).item())
        return sum(each) * scale

    loss(mine).backward()
    step = 1e-6
    for owner in range(peers.size):
        for at in range(inputs[owner].numel()):
            flat = inputs[owner].view(-1)
            flat[at] += step
            above = total()
            flat[at] -= 2 * step
            below = total()
            flat[at] += step
            if peers.rank == owner:
                assert mine.grad.view(-1)[at].item() == pytest.approx((above - below) / (2 * step), rel=1e-5)


def test_gradients_in_a_process_set(peers: Peers) -> None:
    some = hvd.add_process_set(range(1, peers.size))
    if some.included():
        size = some.size()
        for function, expected in (
            (lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, process_set=some), size),
            (lambda tensor: hvd.allgather(tensor, process_set=some), 1),
            (lambda tensor: hvd.broadcast(tensor, 1, process_set=some), float(peers.rank == 1)),
            (lambda tensor: hvd.alltoall(tensor, process_set=some), 1),
            (lambda tensor: hvd.reducescatter(tensor, process_set=some), 1),
            (lambda tensor: hvd.reducescatter(tensor, op=hvd.Sum, process_set=some), size),
            (lambda tensor: hvd.grouped_allgather([tensor], process_set=some)[0], 1),
        ):
            mine = torch.ones(2 * size, requires_grad=True)
            function(mine).sum().backward()
            assert mine.grad.tolist() == [expected] * (2 * size)
    hvd.remove_process_set(some)


def test_calls_without_gradient_record_nothing(peers: Peers) -> None:
    mine = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert not hvd.allreduce(mine).requires_grad
    assert not hvd.allreduce(torch.ones(3)).requires_grad
    assert hvd.allreduce(mine).requires_grad
    reduced, counted = hvd.grouped_allreduce([mine, torch.ones(2, dtype=torch.int64)])
    assert reduced.requires_grad and not counted.requires_grad
