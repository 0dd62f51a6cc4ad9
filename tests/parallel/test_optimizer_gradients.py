"""DistributedOptimizer reduces every gradient once, also missing and clipped ones."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from harness.peers import Peers
from small_models import assert_close, data, linear, reductions, reductions_of, sgd

import hora.torch as hvd

RANKS = (2, 3)


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.unused = linear(1), linear(2), linear(3)

    def forward(self, inputs: torch.Tensor, use_a: bool) -> torch.Tensor:
        return self.a(inputs) if use_a else self.b(inputs)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("turns", ["fixed", "changing"])
def test_gradient_on_some_ranks_only(turns: str, set_to_none: bool, peers: Peers) -> None:
    model, expected = Branches(), Branches()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    inner = sgd(expected)
    for step in range(3):
        first = step % peers.size if turns == "changing" else 0
        optimizer.zero_grad(set_to_none=set_to_none)
        model(data(step, peers.rank), peers.rank == first).square().mean().backward()
        optimizer.step()
        inner.zero_grad()
        losses = [expected(data(step, rank), rank == first).square().mean() for rank in range(peers.size)]
        (sum(losses) / peers.size).backward()
        inner.step()
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_no_gradient_on_one_rank(peers: Peers) -> None:
    model, expected = linear(1), linear(1)
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    if peers.rank != 0:
        model(data(0, peers.rank)).square().mean().backward()
    optimizer.step()
    (sum(expected(data(0, rank)).square().mean() for rank in range(1, peers.size)) / peers.size).backward()
    sgd(expected).step()
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


@pytest.mark.parametrize("guarded", [True, False])
def test_clipping_between_synchronize_and_step(guarded: bool, peers: Peers) -> None:
    model, expected = linear(1), linear(1)
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    inner = sgd(expected)
    before = reductions()
    for step in range(3):
        optimizer.zero_grad()
        (10 * (peers.rank + 1) * model(data(step, peers.rank)).sum()).backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if guarded:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with optimizer.skip_synchronize():
                    optimizer.step()
            assert reductions() - before == reductions_of(step + 1, 2)
        else:
            with pytest.warns(UserWarning, match=r"called without optimizer\.skip_synchronize\(\)"):
                optimizer.step()
        inner.zero_grad()
        losses = [10 * (rank + 1) * expected(data(step, rank)).sum() for rank in range(peers.size)]
        (sum(losses) / peers.size).backward()
        torch.nn.utils.clip_grad_norm_(expected.parameters(), 1.0)
        inner.step()
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sum": {"op": hvd.Sum},
    "fp16": {"compression": hvd.Compression.fp16},
    "one group": {"groups": 1},
    "predivided": {"gradient_predivide_factor": 3.0},
    "sparse as dense": {"sparse_as_dense": True},
    "two passes": {"backward_passes_per_step": 2},
}


@pytest.mark.parametrize("stepping", ["step", "closure", "synchronize", "scaler", "missing gradient"])
@pytest.mark.parametrize("options", OPTIONS)
def test_one_reduction_per_parameter_and_step(options: str, stepping: str, peers: Peers) -> None:
    model = torch.nn.Sequential(linear(1), linear(2))
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **OPTIONS[options])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0, enabled=stepping == "scaler")

    def backward() -> torch.Tensor:
        optimizer.zero_grad()
        for seed in range(OPTIONS[options].get("backward_passes_per_step", 1)):
            output = model[1](data(seed, peers.rank))
            if stepping != "missing gradient" or peers.rank != 0:
                output = model[0](output)
            loss = output.square().mean()
            scaler.scale(loss).backward()
        return loss

    apart = {"fp16": 4, "one group": 4}.get(options, 0)
    before = reductions()
    for step in range(3):
        batches = hvd.metrics()["batches"]
        loss = None if stepping == "closure" else backward()
        if stepping == "synchronize":
            optimizer.synchronize()
            optimizer.synchronize()
            with optimizer.skip_synchronize():
                optimizer.step()
        elif stepping == "closure":
            loss = optimizer.step(backward)
        elif stepping == "scaler":
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        assert loss is not None
        done = 4 * (step + 1) if options == "fp16" else reductions_of(step + 1, 4, apart)
        assert reductions() - before == done
        assert 1 <= hvd.metrics()["batches"] - batches <= 5
    peers.assert_same_bits(*model.parameters())
