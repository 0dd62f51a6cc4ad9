"""What training scripts do besides stepping: N ranks still equal one process on the joined batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from harness.peers import Peers

import hora.torch as hvd

RANKS = (2, 3)
STEPS = 6
BATCH = 12
Train = Callable[[torch.nn.Module, torch.optim.Optimizer, slice], None]


def make_model() -> torch.nn.Sequential:
    torch.manual_seed(5)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)
    ).double()


def losses(model: Any, optimizer: torch.optim.Optimizer, share: slice, steps: int = STEPS) -> Iterator[Any]:
    for step in range(steps):
        draw = torch.Generator().manual_seed(step)
        inputs = torch.randn(BATCH, 6, generator=draw, dtype=torch.float64)
        optimizer.zero_grad()
        yield torch.nn.functional.mse_loss(model(inputs[share]), inputs.sum(dim=1, keepdim=True)[share])


def is_wrapped(optimizer: torch.optim.Optimizer) -> bool:
    return hasattr(optimizer, "synchronize")


def compare(train: Train, peers: Peers, tolerance: float = 1e-10, **options: Any) -> None:
    """Train alone on all data and on shares of it, without any warning, and expect equal weights."""
    alone, model = make_model(), make_model()
    each = BATCH // peers.size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(alone, torch.optim.Adam(alone.parameters(), lr=0.05), slice(None))
        inner = torch.optim.Adam(model.parameters(), lr=0.05)
        optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), **options)
        train(model, optimizer, slice(peers.rank * each, (peers.rank + 1) * each))
    peers.assert_same_bits(*model.parameters())
    for mine, expected in zip(model.parameters(), alone.parameters(), strict=True):
        assert (mine - expected).abs().max() < tolerance
    assert not torch.equal(model[0].weight, make_model()[0].weight)


@pytest.mark.parametrize("clipped", [False, True])
def test_grad_scaler(clipped: bool, peers: Peers) -> None:
    def train(model: torch.nn.Module, optimizer: Any, share: slice) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
        for loss in losses(model, optimizer, share):
            scaler.scale(loss).backward()
            if clipped:
                if is_wrapped(optimizer):
                    optimizer.synchronize()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            if clipped and is_wrapped(optimizer):
                with optimizer.skip_synchronize():
                    scaler.step(optimizer)
            else:
                scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 2.0**13

    compare(train, peers)


def test_grad_scaler_skips_the_step_on_all_ranks(peers: Peers) -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    for step, loss in enumerate(losses(model, optimizer, slice(None))):
        infinite = step == 2 and peers.rank == 1
        scaler.scale(loss * float("inf") if infinite else loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 8.0
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    peers.assert_same_bits(*model.parameters())


@pytest.mark.parametrize("kind", ["StepLR", "OneCycleLR", "SequentialLR", "ReduceLROnPlateau"])
def test_schedulers(kind: str, peers: Peers) -> None:
    def make(optimizer: torch.optim.Optimizer) -> Any:
        schedulers = torch.optim.lr_scheduler
        if kind == "StepLR":
            return schedulers.StepLR(optimizer, 2, 0.5)
        if kind == "OneCycleLR":
            return schedulers.OneCycleLR(optimizer, 0.1, total_steps=STEPS + 1)
        if kind == "SequentialLR":
            parts = [schedulers.ConstantLR(optimizer, 0.1), schedulers.ExponentialLR(optimizer, 0.9)]
            return schedulers.SequentialLR(optimizer, parts, milestones=[3])
        return schedulers.ReduceLROnPlateau(optimizer, patience=0)

    def train(model: torch.nn.Module, optimizer: Any, share: slice) -> None:
        scheduler = make(optimizer)
        for loss in losses(model, optimizer, share):
            loss.backward()
            optimizer.step()
            scheduler.step(*([1.0] if kind == "ReduceLROnPlateau" else []))

    with warnings.catch_warnings():
        if kind == "SequentialLR":  # PyTorch itself steps its parts before the optimizer
            warnings.simplefilter("ignore")
        compare(train, peers)


@pytest.mark.parametrize("clip", [torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_])
def test_clipping(clip: Callable[..., Any], peers: Peers) -> None:
    def train(model: torch.nn.Module, optimizer: Any, share: slice) -> None:
        for loss in losses(model, optimizer, share):
            loss.backward()
            if is_wrapped(optimizer):
                optimizer.synchronize()
            clip(model.parameters(), 0.05)
            if is_wrapped(optimizer):
                with optimizer.skip_synchronize():
                    optimizer.step()
            else:
                optimizer.step()

    compare(train, peers)


@pytest.mark.parametrize("groups", [None, 2])
def test_freezing_and_thawing(groups: int | None, peers: Peers) -> None:
    def train(model: Any, optimizer: torch.optim.Optimizer, share: slice) -> None:
        model[0].requires_grad_(False)
        for step, loss in enumerate(losses(model, optimizer, share)):
            loss.backward()
            optimizer.step()
            if step in (1, 3):
                model[0].requires_grad_(step == 1)

    compare(train, peers, groups=groups)


def test_parameters_added_later(peers: Peers) -> None:
    def train(model: Any, optimizer: torch.optim.Optimizer, share: slice) -> None:
        extra = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
        for step, loss in enumerate(losses(lambda inputs: model(inputs) * extra, optimizer, share)):
            if step == 2:
                optimizer.add_param_group({"params": [extra], "lr": 0.2})
            extra.grad = None if step < 2 else extra.grad
            loss.backward()
            optimizer.step()
        model[4].bias.data += extra.data  # so that it is compared too

    compare(train, peers)


@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore")
def test_compiled_model(peers: Peers) -> None:
    def train(model: Any, optimizer: torch.optim.Optimizer, share: slice) -> None:
        compiled = torch.compile(model, backend="aot_eager") if is_wrapped(optimizer) else model
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for loss in losses(compiled, optimizer, share):
                loss.backward()
                optimizer.step()

    compare(train, peers)


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.05, amsgrad=True),
        lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, centered=True),
        lambda parameters: torch.optim.Adagrad(parameters, lr=0.05),
        lambda parameters: torch.optim.Adadelta(parameters),
        lambda parameters: torch.optim.NAdam(parameters),
        lambda parameters: torch.optim.Adam(parameters, fused=True),
    ],
    ids=["SGD", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "fused Adam"],
)
def test_several_models_and_optimizers_at_once(
    make: Callable[..., torch.optim.Optimizer], peers: Peers
) -> None:
    def train(models: Any, optimizers: Any, share: slice) -> None:
        for step in range(STEPS):
            draw = torch.Generator().manual_seed(step)
            inputs = torch.randn(BATCH, 6, generator=draw, dtype=torch.float64)[share]
            (models[0](inputs) * models[1](inputs) + models[2](inputs)).square().mean().backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()

    alone, models = ([make_model() for _ in range(3)] for _ in range(2))
    train(alone, [make(model.parameters()) for model in alone], slice(None))
    each = BATCH // peers.size
    optimizers = [hvd.DistributedOptimizer(make(m.parameters()), m.named_parameters()) for m in models]
    train(models, optimizers, slice(peers.rank * each, (peers.rank + 1) * each))
    for model, reference in zip(models, alone, strict=True):
        peers.assert_same_bits(*model.parameters())
        for mine, expected in zip(model.parameters(), reference.parameters(), strict=True):
            assert (mine - expected).abs().max() < 1e-9
