"""N ranks on shares of a batch train to the weights of one process on the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness.peers import Peers

import hora.torch as hvd

RANKS = (2, 3, 4)
STEPS = 20
BATCH = 24  # divisible by every number of ranks
Make = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "SGD momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
}


def make_model() -> torch.nn.Module:
    torch.manual_seed(5)
    layers = [
        torch.nn.Linear(6, 16),
        torch.nn.Tanh(),
        torch.nn.Linear(16, 8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 1),
    ]
    return torch.nn.Sequential(*layers).double()


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(step)
    inputs = torch.randn(BATCH, 6, generator=draw, dtype=torch.float64)
    return inputs, inputs.prod(dim=1, keepdim=True)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, share: slice) -> None:
    for step in range(STEPS):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs[share]), targets[share]).backward()
        optimizer.step()


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("named", [True, False])
def test_equals_one_process_on_the_joined_batch(kind: str, named: bool, peers: Peers) -> None:
    alone = make_model()
    train(alone, OPTIMIZERS[kind](alone.parameters()), slice(None))

    model = make_model()
    names = {"named_parameters": model.named_parameters()} if named else {}
    optimizer = hvd.DistributedOptimizer(OPTIMIZERS[kind](model.parameters()), **names)
    each = BATCH // peers.size
    train(model, optimizer, slice(peers.rank * each, (peers.rank + 1) * each))

    peers.assert_same_bits(*model.parameters())
    for mine, expected in zip(model.parameters(), alone.parameters(), strict=True):
        assert (mine - expected).abs().max() < 1e-10
    initial = make_model()
    assert not torch.equal(model[0].weight, initial[0].weight)


def test_sum_of_gradients(peers: Peers) -> None:
    alone = make_model()
    train(alone, torch.optim.SGD(alone.parameters(), lr=0.1), slice(None))
    model = make_model()
    inner = torch.optim.SGD(model.parameters(), lr=0.1 / peers.size)
    optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters(), op=hvd.Sum)
    each = BATCH // peers.size
    train(model, optimizer, slice(peers.rank * each, (peers.rank + 1) * each))
    peers.assert_same_bits(*model.parameters())
    for mine, expected in zip(model.parameters(), alone.parameters(), strict=True):
        assert (mine - expected).abs().max() < 1e-10


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_compressed_gradients(compression: str, peers: Peers) -> None:
    alone = make_model()
    train(alone, torch.optim.SGD(alone.parameters(), lr=0.1), slice(None))
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        named_parameters=model.named_parameters(),
        compression=getattr(hvd.Compression, compression),
    )
    each = BATCH // peers.size
    train(model, optimizer, slice(peers.rank * each, (peers.rank + 1) * each))
    peers.assert_same_bits(*model.parameters())
    for mine, expected in zip(model.parameters(), alone.parameters(), strict=True):
        assert mine.dtype == torch.float64
        assert (mine - expected).abs().max() < 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_of_lower_precision_stay_equal(dtype: torch.dtype, peers: Peers) -> None:
    model = make_model().to(dtype)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), named_parameters=model.named_parameters()
    )
    each = BATCH // peers.size
    for step in range(STEPS):
        inputs, targets = (
            tensor[peers.rank * each : (peers.rank + 1) * each].to(dtype) for tensor in batch(step)
        )
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    peers.assert_same_bits(*model.parameters())
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_buckets_of_batch_norm_and_shared_weights(peers: Peers) -> None:
    torch.manual_seed(1)
    embedding = torch.nn.Linear(6, 6)
    model = torch.nn.Sequential(embedding, torch.nn.BatchNorm1d(6), torch.nn.ReLU(), embedding).double()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters()), named_parameters=model.named_parameters()
    )
    each = BATCH // peers.size
    for step in range(5):
        optimizer.zero_grad()
        model(batch(step)[0][peers.rank * each : (peers.rank + 1) * each]).square().mean().backward()
        optimizer.step()
    peers.assert_same_bits(*model.parameters())
