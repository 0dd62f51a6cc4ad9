"""DistributedOptimizer within a process set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from harness.peers import Peers
from small_models import assert_close, data, linear, reductions, sgd

import hora.torch as hvd

RANKS = (2, 3, 4)


@pytest.fixture
def halves() -> Iterator[list[hvd.ProcessSet]]:
    """The even and the odd ranks."""
    sets = [hvd.add_process_set(list(range(first, hvd.size(), 2))) for first in range(2)]
    yield sets
    for each in sets:
        hvd.remove_process_set(each)


def test_two_models_side_by_side(halves: list[hvd.ProcessSet], peers: Peers) -> None:
    """Each half trains a model of its own, with the same names, at the same time."""
    own = halves[peers.rank % 2]
    model, expected = linear(peers.rank % 2), linear(peers.rank % 2)
    optimizer, inner = hvd.DistributedOptimizer(sgd(model), process_set=own), sgd(expected)
    for step in range(4):
        optimizer.zero_grad()
        model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
        inner.zero_grad()
        losses = [expected(data(step, rank)).square().mean() for rank in own.ranks]
        (sum(losses) / len(losses)).backward()
        inner.step()
    assert_close(model, expected)
    weights = peers.exchange(model.weight.tolist())
    assert all(weights[rank] == weights[own.ranks[0]] for rank in own.ranks)


def test_a_shared_and_a_separate_part(halves: list[hvd.ProcessSet], peers: Peers) -> None:
    """All ranks train the trunk, each half a head of its own, in one backward pass."""
    own = halves[peers.rank % 2]
    trunk, head = linear(5), linear(6 + peers.rank % 2)
    of_trunk = hvd.DistributedOptimizer(sgd(trunk))
    of_head = hvd.DistributedOptimizer(sgd(head), process_set=own)
    for step in range(4):
        head(trunk(data(step, peers.rank))).square().mean().backward()
        for optimizer in (of_head, of_trunk) if peers.rank % 2 else (of_trunk, of_head):
            optimizer.step()
            optimizer.zero_grad()
    peers.assert_same_bits(*trunk.parameters())
    weights = peers.exchange(head.weight.tolist())
    assert all(weights[rank] == weights[own.ranks[0]] for rank in own.ranks)


def test_outside_the_set_nothing_is_reduced(halves: list[hvd.ProcessSet], peers: Peers) -> None:
    other = halves[1 - peers.rank % 2]
    model, expected = linear(1), linear(1)
    optimizer, inner = hvd.DistributedOptimizer(sgd(model), process_set=other), sgd(expected)
    before = reductions()
    pairs: list[tuple[torch.nn.Module, torch.optim.Optimizer]] = [(model, optimizer), (expected, inner)]
    for each, stepping in pairs:
        each(data(0, peers.rank)).square().mean().backward()
        stepping.step()
    assert reductions() == before
    assert_close(model, expected)


def test_parameters_and_state_come_from_a_root_of_the_set(halves: list[hvd.ProcessSet], peers: Peers) -> None:
    own = halves[peers.rank % 2]
    root = own.ranks[-1]
    model = linear(peers.rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (peers.rank + 1))
    if peers.rank == root:
        model(data(0, peers.rank)).square().mean().backward()
        optimizer.step()
    hvd.broadcast_parameters(model.state_dict(), root_rank=root, process_set=own)
    hvd.broadcast_optimizer_state(optimizer, root_rank=root, process_set=own)
    expected = linear(root)
    inner = torch.optim.Adam(expected.parameters(), lr=0.1 * (root + 1))
    expected(data(0, root)).square().mean().backward()
    inner.step()
    assert_close(model, expected)
    assert optimizer.param_groups[0]["lr"] == inner.param_groups[0]["lr"]
    moment = optimizer.state[model.weight]["exp_avg"]
    torch.testing.assert_close(moment, inner.state[expected.weight]["exp_avg"])


def test_a_set_that_is_not_added_is_refused(peers: Peers) -> None:
    for wrong in (hvd.ProcessSet([0]), "evens", [0]):
        with pytest.raises(ValueError, match=r"process_set|not added"):
            hvd.DistributedOptimizer(sgd(linear(1)), process_set=wrong)
