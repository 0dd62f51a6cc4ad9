"""Replicas that drifted apart are found, and named alike on all ranks."""

from __future__ import annotations

import pytest
import torch
from harness.peers import Peers

import hora.torch as hvd

RANKS = (2, 3)


def make(seed: int) -> tuple[torch.nn.Sequential, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    return model, hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters())


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
    for step in range(20):
        optimizer.zero_grad()
        inputs = torch.randn(5, 3, generator=torch.Generator().manual_seed(100 * rank + step))
        model(inputs).square().mean().backward()
        optimizer.step()


def test_replicas_made_equal_stay_equal(peers: Peers) -> None:
    model, optimizer = make(seed=peers.rank)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    train(model, optimizer, peers.rank)
    hvd.check_consistency(model, optimizer)
    peers.assert_same_bits(*model.parameters())


def test_replicas_never_made_equal_are_reported(peers: Peers) -> None:
    model, optimizer = make(seed=peers.rank)
    train(model, optimizer, peers.rank)
    others = list(range(1, peers.size))
    with pytest.raises(hvd.HorovodInternalError, match=rf"model 0\.weight differs: ranks \[{others[0]}"):
        hvd.check_consistency(model, optimizer)


def test_the_first_differing_tensor_is_named(peers: Peers) -> None:
    model, optimizer = make(seed=1)
    train(model, optimizer, rank=0)
    if peers.rank == 1:
        with torch.no_grad():
            model[2].bias[0] = torch.nextafter(model[2].bias[0], torch.tensor(2.0))
    with pytest.raises(hvd.HorovodInternalError, match=r"model 2\.bias differs: ranks \[1\]"):
        hvd.check_consistency(model)


def test_optimizer_state_counts(peers: Peers) -> None:
    model, optimizer = make(seed=1)
    train(model, optimizer, rank=0)
    hvd.check_consistency(model, optimizer)
    if peers.rank == 0:
        optimizer.state[model[0].bias]["exp_avg"] += 1
    with pytest.raises(hvd.HorovodInternalError, match=r"optimizer state 1\.exp_avg differs"):
        hvd.check_consistency(model, optimizer)


def test_missing_and_empty_tensors(peers: Peers) -> None:
    model = torch.nn.Linear(0, 0)
    hvd.check_consistency(model)
    if peers.rank == 0:
        model.register_buffer("extra", torch.zeros(1))
    with pytest.raises(hvd.HorovodInternalError, match="model extra differs"):
        hvd.check_consistency(model)
