"""DistributedOptimizer with groups, names, frozen layers and any order of parameters."""

from __future__ import annotations

import pytest
import torch
from harness.peers import Peers
from small_models import assert_close, data, linear, sgd

import hora.torch as hvd

RANKS = (2, 3)


def test_groups_without_names(peers: Peers) -> None:
    def grouped(model: torch.nn.Sequential) -> torch.optim.SGD:
        weights = [parameter for name, parameter in model.named_parameters() if name.endswith("weight")]
        biases = [parameter for name, parameter in model.named_parameters() if name.endswith("bias")]
        return torch.optim.SGD([{"params": weights}, {"params": biases, "lr": 0.01}], lr=0.1)

    model = torch.nn.Sequential(linear(1), linear(2), linear(3))
    expected = torch.nn.Sequential(linear(1), linear(2), linear(3))
    optimizer, inner = hvd.DistributedOptimizer(grouped(model)), grouped(expected)
    for step in range(3):
        optimizer.zero_grad()
        model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
        inner.zero_grad()
        (
            sum(expected(data(step, rank)).square().mean() for rank in range(peers.size)) / peers.size
        ).backward()
        inner.step()
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_bad_names_are_refused(peers: Peers) -> None:
    model = torch.nn.Sequential(linear(1), linear(2))
    named = list(model.named_parameters())
    for wrong in (
        [parameter for _, parameter in named],
        [("same", parameter) for _, parameter in named],
        named[:-1],
        [(5, parameter) for _, parameter in named],
    ):
        with pytest.raises(ValueError):
            hvd.DistributedOptimizer(sgd(model), named_parameters=wrong)


def test_other_order_of_parameters_on_one_rank(peers: Peers) -> None:
    model = torch.nn.Sequential(linear(1), linear(2))
    named = list(model.named_parameters())
    if peers.rank == 0:
        named.reverse()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([parameter for _, parameter in named], lr=0.1), named_parameters=named
    )
    for step in range(3):
        optimizer.zero_grad()
        model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
    peers.assert_same_bits(*model.parameters())


def test_frozen_and_thawed_layers(peers: Peers) -> None:
    model = torch.nn.Sequential(linear(1), linear(2))
    model[0].requires_grad_(False)
    frozen = [parameter.clone() for parameter in model[0].parameters()]
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(trainable, lr=0.1), named_parameters=model.named_parameters()
    )
    for step in range(2):
        optimizer.zero_grad()
        model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
    assert all(torch.equal(mine, old) for mine, old in zip(model[0].parameters(), frozen, strict=True))
    peers.assert_same_bits(*model.parameters())

    model[0].requires_grad_(True)
    try:
        optimizer.add_param_group({"params": list(model[0].parameters())})
    except (ValueError, NotImplementedError) as error:
        assert "param" in str(error).lower()
        return
    for step in range(2, 4):
        optimizer.zero_grad()
        model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
    peers.assert_same_bits(*model.parameters())
    assert not torch.equal(model[0].weight, frozen[0])


def test_frozen_parameters_inside_the_optimizer(peers: Peers) -> None:
    model = torch.nn.Sequential(linear(1), linear(2))
    model[0].requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    for step in range(4):
        if step == 2:
            model[0].requires_grad_(True)
        optimizer.zero_grad()
        model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
    peers.assert_same_bits(*model.parameters())
