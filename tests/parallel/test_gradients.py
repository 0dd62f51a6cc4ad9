"""Backward of the blocking collectives equals the numeric derivative, in the convention that they document.

What is differentiated is the sum of the ranks' losses for allreduce, their mean for allgather and broadcast.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness.peers import Peers

import hora.torch as hvd

RANKS = (2, 3)
Function = Callable[[torch.Tensor], torch.Tensor]

COLLECTIVES: dict[str, tuple[Function, bool]] = {
    "allreduce sum": (lambda tensor: hvd.allreduce(tensor, op=hvd.Sum), True),
    "allreduce average": (lambda tensor: hvd.allreduce(tensor), True),
    "allreduce scaled": (
        lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=2, postscale_factor=3),
        True,
    ),
    "allgather": (lambda tensor: hvd.allgather(tensor), False),
    "broadcast": (lambda tensor: hvd.broadcast(tensor, 1), False),
}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_equals_central_differences(collective: str, peers: Peers) -> None:
    function, sums_losses = COLLECTIVES[collective]
    rows = [2 if collective != "allgather" else 1 + rank for rank in range(peers.size)]
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
        return sum(each) / (1 if sums_losses else peers.size)

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


def test_calls_without_gradient_record_nothing(peers: Peers) -> None:
    mine = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert not hvd.allreduce(mine).requires_grad
    assert not hvd.allreduce(torch.ones(3)).requires_grad
    assert hvd.allreduce(mine).requires_grad
