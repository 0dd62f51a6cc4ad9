"""After the broadcast of optimizer state every rank has the root's state and options, in value and type."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from disagreement import assert_works
from harness.peers import Peers

import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3)
Make = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    "SGD momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9, nesterov=True),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "AdamW amsgrad": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, amsgrad=True),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.01),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, momentum=0.5, centered=True),
    "Adadelta": lambda parameters: torch.optim.Adadelta(parameters),
    "NAdam": lambda parameters: torch.optim.NAdam(parameters),
    "Rprop": lambda parameters: torch.optim.Rprop(parameters),
    "Adamax": lambda parameters: torch.optim.Adamax(parameters),
    "ASGD": lambda parameters: torch.optim.ASGD(parameters),
    "RAdam": lambda parameters: torch.optim.RAdam(parameters),
    "Adafactor": lambda parameters: torch.optim.Adafactor(parameters),
}


def make_model(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, seed: int = 0) -> None:
    inputs = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed))
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()


def plain(value: Any) -> Any:
    """Return state as nested lists with the type of each leaf, fit for comparing between ranks."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, torch.Tensor):
        return ["tensor", str(value.dtype), value.tolist()]
    return [type(value).__name__, repr(value)]


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("with_state", ["root", "all", "nobody", "all but root"])
def test_state_equals_that_of_the_root(kind: str, with_state: str, peers: Peers) -> None:
    root = peers.size - 1
    model = make_model(seed=peers.rank)
    optimizer = OPTIMIZERS[kind](model.parameters())
    if with_state == "all" or (with_state != "nobody" and (peers.rank == root) == (with_state == "root")):
        for seed in range(3):
            step(model, optimizer, seed)
    before = plain(optimizer.state_dict()) if peers.rank == root else None
    hvd.broadcast_parameters(model.state_dict(), root_rank=root)
    hvd.broadcast_optimizer_state(optimizer, root_rank=root)
    after = plain(optimizer.state_dict())
    peers.assert_same(after)
    if peers.rank == root and with_state in ("root", "all"):
        assert after == before
    assert isinstance(optimizer.param_groups[0]["lr"], float)
    step(model, optimizer)
    peers.assert_same_bits(*model.parameters())
    peers.assert_same(plain(optimizer.state_dict()))


def test_every_option_equals_that_of_the_root(peers: Peers) -> None:
    model = make_model(seed=0)
    if peers.rank == 0:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5, nesterov=True, foreach=False)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1, maximize=True)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    options = {key: value for key, value in optimizer.param_groups[0].items() if key != "params"}
    peers.assert_same(plain(options))
    assert (type(options["lr"]), options["lr"]) == (float, 0.01)
    assert (type(options["nesterov"]), options["nesterov"]) == (bool, True)
    assert (type(options["maximize"]), options["maximize"]) == (bool, False)
    assert options["foreach"] is False
    assert options["weight_decay"] == 0


def test_options_of_every_kind_and_group(peers: Peers) -> None:
    model = make_model(seed=0)
    first, second = list(model[0].parameters()), list(model[2].parameters())
    optimizer = torch.optim.Adam([{"params": first, "lr": 0.1 * (peers.rank + 1)}, {"params": second}])
    extras = [
        {"note": "root", "none": None, "pair": (1, 2.5), "flag": True, "count": 3, "table": {"a": [1]}},
        {"note": 5, "none": 1.0, "pair": [1], "flag": None, "count": 3.5, "table": None},
        {},
    ][peers.rank]
    optimizer.param_groups[1].update(extras)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    groups = [
        {key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups
    ]
    peers.assert_same(plain(groups))
    assert groups[0]["lr"] == 0.1
    assert groups[0]["betas"] == (0.9, 0.999) and type(groups[0]["betas"]) is tuple
    assert groups[1]["none"] is None and groups[1]["pair"] == (1, 2.5) and type(groups[1]["count"]) is int
    assert [
        parameter is mine for parameter, mine in zip(optimizer.param_groups[1]["params"], second, strict=True)
    ]


def test_tensor_learning_rate(peers: Peers) -> None:
    model = make_model(seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1 * (peers.rank + 1)))
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == torch.tensor(0.1)


def test_gradients_survive_the_broadcast(peers: Peers) -> None:
    model = make_model(seed=0)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for parameter, gradient, weight in zip(model.parameters(), gradients, weights, strict=True):
        assert torch.equal(parameter.grad, gradient)
        assert torch.equal(parameter, weight)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_no_step_is_taken(kind: str, wrapped: bool, peers: Peers) -> None:
    """Neither where state is missing nor where it is made; a rank without gradients stays without."""
    model = make_model(seed=0)
    optimizer = OPTIMIZERS[kind](model.parameters())
    if peers.rank == 0:
        step(model, optimizer)
        for parameter in model.parameters():
            parameter.grad = None
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    if wrapped:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    steps: list[object] = []
    optimizer.register_step_pre_hook(lambda *_: steps.append("step"))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for _ in range(2):
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert steps == []
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(map(torch.equal, model.parameters(), before))
    counts = [int(state["step"]) for state in optimizer.state.values() if "step" in state]
    assert counts == [1] * (0 if kind.startswith("SGD") else 4)


def test_a_root_without_state_empties_that_of_the_others(peers: Peers) -> None:
    model = make_model(seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (peers.rank + 1))
    if peers.rank > 0:
        step(model, optimizer)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert len(optimizer.state) == 0
    assert optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("kind", ["SGD momentum", "Adam"])
def test_distributed_optimizer_after_a_checkpoint_on_the_root(kind: str, peers: Peers) -> None:
    model = make_model(seed=peers.rank)
    plain_optimizer = OPTIMIZERS[kind](model.parameters())
    if peers.rank == 0:
        for seed in range(3):
            step(model, plain_optimizer, seed)
    optimizer = hvd.DistributedOptimizer(plain_optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for seed in range(5):
        step(model, optimizer, seed * 10 + peers.rank)
    peers.assert_same_bits(*model.parameters())
    peers.assert_same(plain(optimizer.state_dict()))


def test_frozen_parameters_have_no_state(peers: Peers) -> None:
    model = make_model(seed=peers.rank)
    model[0].weight.requires_grad = False
    optimizer = torch.optim.Adam(model.parameters())
    if peers.rank == 0:
        step(model, optimizer)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    peers.assert_same(plain(optimizer.state_dict()))


def test_lbfgs_is_refused(peers: Peers) -> None:
    model = make_model(seed=0)
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS(model.parameters()), root_rank=0)
    assert hvd.broadcast(torch.tensor([peers.rank]), 0).item() == 0


@pytest.mark.timeout(20)
@pytest.mark.parametrize("difference", ["more groups", "fewer parameters", "refused kind"])
def test_optimizers_that_differ_between_ranks(difference: str, peers: Peers) -> None:
    model = make_model(seed=0)
    parameters = list(model.parameters())
    optimizer: torch.optim.Optimizer = torch.optim.Adam(parameters)
    if peers.rank == 1 and difference == "more groups":
        optimizer = torch.optim.Adam([{"params": parameters[:2]}, {"params": parameters[2:]}])
    elif peers.rank == 1 and difference == "fewer parameters":
        optimizer = torch.optim.Adam(parameters[:3])
    elif peers.rank == 1:
        optimizer = torch.optim.LBFGS(parameters)
    with pytest.raises((ValueError, HorovodInternalError)):
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert_works(peers, "afterwards")


def test_replicas_stay_bit_equal(peers: Peers) -> None:
    model = make_model(seed=peers.rank)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        for seed in range(20):
            step(model, optimizer, seed * 10 + peers.rank)
    peers.assert_same_bits(*model.parameters())
