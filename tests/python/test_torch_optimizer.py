"""DistributedOptimizer with one rank behaves as the plain optimizer; its arguments are checked."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref
from typing import Any

import pytest
import torch

import hora.torch as hvd


def make_model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))


def sgd(model: torch.nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), **({"lr": 0.1} | options))


def loss_of(model: torch.nn.Module, seed: int) -> torch.Tensor:
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(seed))
    return torch.as_tensor(model(inputs).square().mean())


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"lr": 0.01},
    "AdamW": {"lr": 0.01, "amsgrad": True},
    "RMSprop": {"lr": 0.01},
    "Adagrad": {"lr": 0.01},
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("compression", ["none", "fp16"])
def test_one_rank_equals_the_plain_optimizer(kind: str, compression: str) -> None:
    models = make_model(), make_model()
    plain, wrapped = (getattr(torch.optim, kind)(model.parameters(), **OPTIMIZERS[kind]) for model in models)
    wrapped = hvd.DistributedOptimizer(
        wrapped, models[1].named_parameters(), compression=getattr(hvd.Compression, compression)
    )
    for step in range(4):
        for model, optimizer in zip(models, (plain, wrapped), strict=True):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            loss_of(model, step).backward()
            optimizer.step()
    assert all(map(torch.equal, models[0].parameters(), models[1].parameters()))
    assert type(wrapped).__name__ == kind
    assert isinstance(wrapped, getattr(torch.optim, kind))


def test_it_is_the_same_object() -> None:
    optimizer = sgd(make_model())
    assert hvd.DistributedOptimizer(optimizer) is optimizer


def test_gradients_may_add_up_with_one_rank() -> None:
    models = make_model(), make_model()
    plain, wrapped = sgd(models[0]), hvd.DistributedOptimizer(sgd(models[1]))
    for model, optimizer in zip(models, (plain, wrapped), strict=True):
        loss_of(model, 0).backward()
        loss_of(model, 1).backward()
        optimizer.step()
    assert all(map(torch.equal, models[0].parameters(), models[1].parameters()))


def test_missing_gradients_stay_missing_with_one_rank() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model, weight_decay=0.5))
    before = [parameter.clone() for parameter in model.parameters()]
    optimizer.step()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(map(torch.equal, model.parameters(), before))


def test_closure_returns_its_loss() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, 0)
        loss.backward()
        return loss

    assert optimizer.step(closure) == loss_of(make_model(), 0)


def test_clipping_pattern() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model))
    loss_of(model, 0).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        with optimizer.skip_synchronize():
            optimizer.step()


@pytest.mark.parametrize("scheduled", ["before", "after"])
def test_schedulers_give_no_warning(scheduled: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make_model()
        inner = sgd(model)
        if scheduled == "before":
            scheduler = torch.optim.lr_scheduler.StepLR(inner, 1, 0.5)
        optimizer = hvd.DistributedOptimizer(inner)
        if scheduled == "after":
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        for step in range(3):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
            scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**3)


@pytest.mark.parametrize("scheduled", [False, True])
def test_step_hooks_run_once(scheduled: bool) -> None:
    model = make_model()
    inner = sgd(model)
    calls: list[str] = []
    inner.register_step_pre_hook(lambda *_: calls.append("before"))
    if scheduled:
        torch.optim.lr_scheduler.StepLR(inner, 1, 0.5)
    optimizer = hvd.DistributedOptimizer(inner)
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.load_state_dict(optimizer.state_dict())
    loss_of(model, 0).backward()
    optimizer.step()
    assert calls == ["before", "after"]


def test_copies_are_plain_optimizers() -> None:
    optimizer = hvd.DistributedOptimizer(sgd(make_model(), momentum=0.5))
    for duplicate in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert type(duplicate) is torch.optim.SGD
        assert duplicate.param_groups[0]["momentum"] == 0.5
        duplicate.step()


def test_optimizer_is_freed_with_its_last_reference() -> None:
    optimizer = hvd.DistributedOptimizer(sgd(make_model()))
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    watch = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert watch() is None


def test_names_are_checked() -> None:
    model = make_model()
    named = list(model.named_parameters())
    wrong: dict[str, Any] = {
        "tuples": [parameter for _, parameter in named],
        "more than once": [("same", parameter) for _, parameter in named],
        "lacks": named[1:],
    }
    for text, names in wrong.items():
        with pytest.raises(ValueError, match=text):
            hvd.DistributedOptimizer(sgd(model), named_parameters=names)
    hvd.DistributedOptimizer(torch.optim.SGD(model[0].parameters()), named_parameters=iter(named))


@pytest.mark.parametrize("named", [True, False])
def test_every_parameter_has_one_name(named: bool) -> None:
    model = make_model()
    layers = [{"params": model[0].parameters()}, {"params": model[2].parameters()}]
    names = {"named_parameters": model.named_parameters()} if named else {}
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layers, lr=0.1), **names)
    expected = [name for name, _ in model.named_parameters()] if named else ["#0", "#1", "#2", "#3"]
    assert optimizer._parameter_names == dict(zip(model.parameters(), expected, strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {"backward_passes_per_step": 0},
        {"gradient_predivide_factor": 2.0, "op": hvd.Sum},
        {"groups": [5]},
        {"process_set": 1},
        {"op": hvd.Max},
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="|".join(options)):
        hvd.DistributedOptimizer(sgd(make_model()), **options)


def test_what_cannot_be_wrapped_is_refused() -> None:
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.DistributedOptimizer(torch.optim.LBFGS(make_model().parameters()))
    with pytest.raises(ValueError, match="Optimizer"):
        hvd.DistributedOptimizer(make_model())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd(make_model())))
