"""Learning-rate schedulers and DistributedOptimizer see each other, without false warnings."""

from __future__ import annotations

import warnings

import pytest
import torch
from harness.peers import Peers
from small_models import data, linear, sgd

import hora.torch as hvd

RANKS = (2, 3)


@pytest.mark.parametrize("scheduled", ["inner", "wrapped"])
def test_scheduler_gives_no_false_warning(scheduled: str, peers: Peers) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = linear(1)
        inner = sgd(model, lr=1.0)
        if scheduled == "inner":
            scheduler = torch.optim.lr_scheduler.StepLR(inner, step_size=1, gamma=0.5)
            optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())
        else:
            optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        for step in range(5):
            optimizer.zero_grad()
            model(data(step, peers.rank)).square().mean().backward()
            optimizer.step()
            scheduler.step()
            assert inner.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"] == 0.5 ** (step + 1)
        inner.param_groups[0]["lr"] = 0.25
        assert optimizer.param_groups[0]["lr"] == 0.25
        optimizer.param_groups[0]["lr"] = 0.125
        assert inner.param_groups[0]["lr"] == 0.125
    peers.assert_same_bits(*model.parameters())


@pytest.mark.parametrize(
    "kind", ["ExponentialLR", "LambdaLR", "ReduceLROnPlateau", "OneCycleLR", "CosineAnnealingLR"]
)
def test_other_schedulers(kind: str, peers: Peers) -> None:
    arguments = {
        "ExponentialLR": {"gamma": 0.9},
        "LambdaLR": {"lr_lambda": lambda epoch: 0.9**epoch},
        "ReduceLROnPlateau": {},
        "OneCycleLR": {"max_lr": 0.2, "total_steps": 10},
        "CosineAnnealingLR": {"T_max": 5},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = linear(1)
        optimizer = hvd.DistributedOptimizer(
            sgd(model, momentum=0.9), named_parameters=model.named_parameters()
        )
        scheduler = getattr(torch.optim.lr_scheduler, kind)(optimizer, **arguments[kind])
        for step in range(4):
            optimizer.zero_grad()
            model(data(step, peers.rank)).square().mean().backward()
            optimizer.step()
            scheduler.step(*([1.0] if kind == "ReduceLROnPlateau" else []))
    peers.assert_same_bits(*model.parameters())
