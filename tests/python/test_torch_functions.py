"""broadcast_parameters and broadcast_optimizer_state with one rank; how state is taken apart and rebuilt."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import hora.torch as hvd
from hora.torch import functions


class Odd(torch.nn.Module):
    """Parameters and buffers of unusual kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(6.0).view(2, 3).t())
        self.scalar = torch.nn.Parameter(torch.tensor(2.0))
        self.frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("counter", torch.tensor(3))
        self.register_buffer("empty", torch.empty(0))
        self.register_buffer("nothing", None)


FORMS = {
    "state_dict": lambda model: model.state_dict(),
    "dict with None": lambda model: dict(model.named_parameters()) | {"a": None},
    "generator of names": lambda model: model.named_parameters(),
    "generator": lambda model: model.parameters(),
    "list of names": lambda model: [*model.named_parameters(), ("a", None)],
    "list": lambda model: [*model.parameters(), None],
    "empty": lambda model: [],
}


@pytest.mark.parametrize("form", FORMS)
def test_parameters_in_every_form(form: str) -> None:
    model = Odd()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    strides = model.weight.stride()
    hvd.broadcast_parameters(FORMS[form](model), root_rank=0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.weight.stride() == strides


@pytest.mark.parametrize(
    "params", [5, None, torch.ones(2), [1], [("a", 1)], [(1, torch.ones(1))], {"a": 5}], ids=str
)
def test_other_forms_are_refused(params: Any) -> None:
    with pytest.raises(ValueError, match="broadcast_parameters"):
        hvd.broadcast_parameters(params, root_rank=0)


def model_and(kind: str, **options: Any) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Linear(3, 2)
    return model, getattr(torch.optim, kind)(model.parameters(), **options)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).square().sum().backward()
        optimizer.step()


KINDS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"betas": (0.8, 0.99)},
    "AdamW": {"amsgrad": True, "foreach": None},
    "Adagrad": {},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "NAdam": {},
    "ASGD": {},
}


def same(left: Any, right: Any) -> bool:
    """Compare values and types of two states."""
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@pytest.mark.parametrize("kind", KINDS)
def test_state_of_the_root_is_rebuilt_elsewhere(kind: str) -> None:
    """What a root with state sends makes a fresh optimizer equal to it, without a step or a gradient."""
    model, optimizer = model_and(kind, **KINDS[kind], lr=0.125)
    train(model, optimizer)
    fresh_model, fresh = model_and(kind, lr=0.5)
    before = [parameter.clone() for parameter in fresh_model.parameters()]

    sent: list[torch.Tensor] = []
    received: list[torch.Tensor] = []
    packed = functions.pack(functions.optimizer_content(optimizer), sent)
    functions.set_content(fresh, functions.unpack(packed, received))
    for mine, roots in zip(received, sent, strict=True):
        mine.copy_(roots)

    assert same(fresh.state_dict(), optimizer.state_dict())
    assert all(parameter.grad is None for parameter in fresh_model.parameters())
    assert all(map(torch.equal, fresh_model.parameters(), before))
    assert fresh.param_groups[0]["params"] == list(fresh_model.parameters())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("wrapped", [False, True])
def test_broadcast_leaves_the_root_as_it_is(kind: str, steps: int, wrapped: bool) -> None:
    model, optimizer = model_and(kind, **KINDS[kind], lr=0.125)
    if wrapped:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    train(model, optimizer, steps)
    gradients = [parameter.grad for parameter in model.parameters()]
    before = optimizer.state_dict()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=model)
    assert same(optimizer.state_dict(), before)
    assert all(p.grad is gradient for p, gradient in zip(model.parameters(), gradients, strict=True))
    train(model, optimizer, 1)


def test_nested_values_keep_their_types() -> None:
    Pair = collections.namedtuple("Pair", "first second")
    value = {
        "lr": 0.5,
        "none": None,
        "flag": True,
        "betas": (0.9, torch.tensor(0.5)),
        "pair": Pair(1, torch.ones(2)),
        "ordered": collections.OrderedDict(b=[torch.zeros(0)], a=1),
    }
    sent: list[torch.Tensor] = []
    received: list[torch.Tensor] = []
    result = functions.unpack(functions.pack(value, sent), received)
    for mine, roots in zip(received, sent, strict=True):
        mine.copy_(roots)
    assert same({key: member for key, member in result.items() if key != "pair"},
                {key: member for key, member in value.items() if key != "pair"})  # fmt: skip
    assert type(result["pair"]).__name__ == "Pair"
    assert result["pair"].second.tolist() == [1, 1]


def test_lbfgs_is_refused() -> None:
    optimizer = torch.optim.LBFGS([torch.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
