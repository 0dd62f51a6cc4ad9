"""DistributedOptimizer alone, twice, and as the optimizer that it wraps."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from disagreement import assert_works
from harness.peers import Peers
from small_models import assert_close, data, linear, reductions, reductions_of, sgd

import hora.torch as hvd

RANKS = (2, 3)


def gan_round(
    generator: Any, critic: Any, for_generator: Any, for_critic: Any, step: int, ranks: list[int]
) -> None:
    """Train both models once on the data of `ranks`: the own rank, or all of them for the reference."""
    for_critic.zero_grad()
    losses = [critic(generator(data(step, rank)).detach()).square().mean() for rank in ranks]
    (sum(losses) / len(ranks)).backward()
    for_critic.step()
    for_generator.zero_grad()
    losses = [(1 - critic(generator(data(step, rank)))).square().mean() for rank in ranks]
    (sum(losses) / len(ranks)).backward()
    for_generator.step()


@pytest.mark.parametrize("names", ["none", "those of the layers"])
def test_two_optimizers_in_turn(names: str, peers: Peers) -> None:
    reference = linear(1), linear(2)
    inner = sgd(reference[0]), sgd(reference[1])
    models = linear(1), linear(2)
    optimizers = [
        hvd.DistributedOptimizer(
            sgd(model), **({} if names == "none" else {"named_parameters": model.named_parameters()})
        )
        for model in models
    ]
    for step in range(5):
        gan_round(*reference, *inner, step, list(range(peers.size)))
        gan_round(*models, *optimizers, step, [peers.rank])
    for model, expected in zip(models, reference, strict=True):
        peers.assert_same_bits(*model.parameters())
        assert_close(model, expected)


def test_two_optimizers_with_one_backward(peers: Peers) -> None:
    reference, models = (linear(1), linear(2)), (linear(1), linear(2))
    optimizers = [
        hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters()) for model in models
    ]
    for step in range(4):
        (
            sum(reference[1](reference[0](data(step, rank))).square().mean() for rank in range(peers.size))
        ).backward()
        for model in reference:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad / peers.size
                    parameter.grad = None
        models[1](models[0](data(step, peers.rank))).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for model, expected in zip(models, reference, strict=True):
        peers.assert_same_bits(*model.parameters())
        assert_close(model, expected)


def test_new_optimizer_on_an_old_model(peers: Peers) -> None:
    model = linear(1)
    for _ in range(3):
        optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
        optimizer.zero_grad()
        model(data(0, peers.rank)).square().mean().backward()
        optimizer.step()
        del optimizer
    peers.assert_same_bits(*model.parameters())


def test_is_still_the_users_class(peers: Peers) -> None:
    model = linear(1)
    inner = torch.optim.Adam(model.parameters(), lr=0.3)
    optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())
    assert isinstance(optimizer, torch.optim.Adam)
    assert type(optimizer).__name__ == "Adam"
    assert optimizer.param_groups[0]["lr"] == 0.3
    assert optimizer.state_dict()["param_groups"][0]["lr"] == 0.3


def test_closure(peers: Peers) -> None:
    model, expected = linear(1), linear(1)
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    inner = sgd(expected)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(data(0, peers.rank)).square().mean()
        loss.backward()
        return loss

    losses = [expected(data(0, rank)).square().mean() for rank in range(peers.size)]
    (sum(losses) / peers.size).backward()
    inner.step()
    loss = optimizer.step(closure)
    assert loss.item() == pytest.approx(losses[peers.rank].item())
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


class Extragradient(torch.optim.Optimizer):
    """Calls its closure three times a step, and goes back between."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def step(self, closure: Any = None) -> Any:
        assert closure is not None
        parameters, lr = self.param_groups[0]["params"], self.param_groups[0]["lr"]
        start = [parameter.detach().clone() for parameter in parameters]
        for share in (0.25, 0.5, 1.0):
            loss = closure()
            with torch.no_grad():
                for parameter, old in zip(parameters, start, strict=True):
                    parameter.copy_(old - share * lr * parameter.grad)
        return loss


def test_closure_that_is_called_several_times(peers: Peers) -> None:
    model, expected = linear(1), linear(1)
    inner = Extragradient(expected.parameters(), 0.1)
    optimizer = hvd.DistributedOptimizer(Extragradient(model.parameters(), 0.1), model.named_parameters())

    def closure_of(model: Any, optimizer: Any, step: int, ranks: list[int]) -> Any:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = sum(model(data(step, rank)).square().mean() for rank in ranks) / len(ranks)
            loss.backward()
            return loss

        return closure

    before = reductions()
    for step in range(3):
        optimizer.step(closure_of(model, optimizer, step, [peers.rank]))
        assert reductions() - before == reductions_of(3 * (step + 1), 2)
        inner.step(closure_of(expected, inner, step, list(range(peers.size))))
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_lbfgs_is_refused_on_all_ranks(peers: Peers) -> None:
    model = linear(1)
    with pytest.raises(ValueError, match="LBFGS") as caught:
        hvd.DistributedOptimizer(torch.optim.LBFGS(model.parameters(), max_iter=5))
    peers.assert_same(str(caught.value))
    assert_works(peers, "afterwards")


def test_state_can_be_loaded(peers: Peers) -> None:
    model = linear(1)
    optimizer = hvd.DistributedOptimizer(sgd(model, momentum=0.9), named_parameters=model.named_parameters())
    for step in range(4):
        if step == 2:
            optimizer.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad()
        model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
    peers.assert_same_bits(*model.parameters())


def test_backward_twice_before_step(peers: Peers) -> None:
    """Horovod fails the second backward pass; adding up silently unreduced gradients would be worse."""
    model = linear(1)
    _kept = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    model(data(0, peers.rank)).square().mean().backward()
    with pytest.raises((AssertionError, RuntimeError), match="backward"):
        model(data(1, peers.rank)).square().mean().backward()


def test_gradient_accessed_after_step_is_the_average(peers: Peers) -> None:
    model = linear(1)
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    model(torch.full((1, 4), float(peers.rank), dtype=torch.float64)).sum().backward()
    optimizer.step()
    assert (model.weight.grad == (peers.size - 1) / 2).all()
    peers.assert_same_bits(model.weight.grad, model.bias.grad)


def test_communication_starts_during_backward(peers: Peers) -> None:
    """The reduction of a last layer of some size is done before the backward pass reaches the first.

    Gradients are begun 1 MiB at a time, for smaller ones nothing is gained by beginning early.
    """
    seen: list[int] = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, inputs: torch.Tensor) -> torch.Tensor:
            return inputs.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            peers.wait()
            end = time.monotonic() + 10
            while reductions() == before and time.monotonic() < end:
                time.sleep(0.001)
            seen.append(reductions() - before)
            return gradient

    model = torch.nn.Sequential(linear(1), linear(2, outputs=32 * 1024))
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    before = reductions()
    model[1](Watch.apply(model[0](data(0, peers.rank)))).square().mean().backward()
    optimizer.step()
    assert seen[0] > 0
    assert reductions() - before == reductions_of(1, 4)
