"""DistributedOptimizer over several backward passes: one reduction per parameter, whatever else goes on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from harness.peers import Peers
from small_models import assert_close, data, linear, reductions, reductions_of, sgd

import hora.torch as hvd

RANKS = (2, 3)
PASSES = 4


def two_layers() -> torch.nn.Sequential:
    return torch.nn.Sequential(linear(1), torch.nn.Tanh(), linear(2))


def wrapped(model: torch.nn.Module, **options: Any) -> Any:
    return hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), **options)


def backward(model: torch.nn.Module, seed: int, ranks: list[int]) -> None:
    losses = [model(data(seed, rank)).square().mean() for rank in ranks]
    (sum(losses) / len(ranks) / PASSES).backward()


def train_alone(model: torch.nn.Module, steps: int, size: int, clip: float | None = None) -> None:
    optimizer = sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        for number in range(PASSES):
            backward(model, PASSES * step + number, list(range(size)))
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


@pytest.mark.parametrize("groups", [None, 2])
def test_passes_are_summed_and_reduced_once(groups: int | None, peers: Peers) -> None:
    expected, model = two_layers(), two_layers()
    train_alone(expected, 3, peers.size)
    optimizer = wrapped(model, backward_passes_per_step=PASSES, groups=groups)
    before, done = reductions(), 0
    for step in range(3):
        optimizer.zero_grad()
        for number in range(PASSES):
            backward(model, PASSES * step + number, [peers.rank])
            assert number == PASSES - 1 or reductions() - before == done
        optimizer.step()
        done = reductions_of(step + 1, 4, apart=4 if groups else 0)
        assert reductions() - before == done
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_passes_with_clipping(peers: Peers) -> None:
    expected, model = two_layers(), two_layers()
    train_alone(expected, 3, peers.size, clip=0.01)
    optimizer = wrapped(model, backward_passes_per_step=PASSES)
    before = reductions()
    for step in range(3):
        for number in range(PASSES):
            backward(model, PASSES * step + number, [peers.rank])
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        with optimizer.skip_synchronize():
            optimizer.step()
        optimizer.zero_grad()
    assert reductions() - before == reductions_of(3, 4)
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_passes_without_reduction(peers: Peers) -> None:
    expected, model = two_layers(), two_layers()
    train_alone(expected, 3, peers.size)
    optimizer = wrapped(model)
    before = reductions()
    for step in range(3):
        optimizer.zero_grad()
        with optimizer.no_sync():
            for number in range(PASSES - 1):
                backward(model, PASSES * step + number, [peers.rank])
        assert reductions() - before == reductions_of(step, 4)
        backward(model, PASSES * step + PASSES - 1, [peers.rank])
        optimizer.step()
    assert reductions() - before == reductions_of(3, 4)
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_a_step_with_local_passes_only_still_reduces(peers: Peers) -> None:
    expected, model = two_layers(), two_layers()
    train_alone(expected, 1, peers.size)
    optimizer = wrapped(model)
    with optimizer.no_sync():
        for number in range(PASSES):
            backward(model, number, [peers.rank])
    optimizer.step()
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


@pytest.mark.parametrize("passes", [1, 3])
def test_too_many_passes_are_refused(passes: int, peers: Peers) -> None:
    model = linear(1)
    optimizer = wrapped(model, backward_passes_per_step=passes)
    for number in range(passes):
        backward(model, number, [peers.rank])
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        backward(model, passes, [peers.rank])
    optimizer.zero_grad()
    for number in range(passes):
        backward(model, number, [peers.rank])
    optimizer.step()
    peers.assert_same_bits(*model.parameters())


def test_a_local_pass_does_not_write_to_gradients_under_reduction(peers: Peers) -> None:
    model = linear(1)
    optimizer = wrapped(model)
    backward(model, 0, [peers.rank])
    with optimizer.no_sync(), pytest.raises(AssertionError, match="no_sync"):
        backward(model, 1, [peers.rank])
    optimizer.zero_grad()


def test_fewer_passes_are_reduced_by_the_step(peers: Peers) -> None:
    model, expected = linear(1), linear(1)
    optimizer, inner = wrapped(model, backward_passes_per_step=PASSES), sgd(expected)
    before = reductions()
    for step in range(2):  # the second round must count from its own beginning
        optimizer.zero_grad()
        inner.zero_grad()
        for number in range(PASSES - 1):
            backward(model, PASSES * step + number, [peers.rank])
            backward(expected, PASSES * step + number, list(range(peers.size)))
        optimizer.step()
        inner.step()
    assert reductions() - before == reductions_of(2, 2)
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_number_of_passes_can_change(peers: Peers) -> None:
    model = linear(1)
    optimizer = wrapped(model)
    before = reductions()
    for passes in (1, 3, 2):
        optimizer.set_backward_passes_per_step(passes)
        optimizer.zero_grad()
        for number in range(passes):
            backward(model, number, [peers.rank])
        optimizer.step()
    assert reductions() - before == reductions_of(3, 2)
    for wrong in (0, -1, 1.5):
        with pytest.raises(ValueError, match="backward_passes_per_step"):
            optimizer.set_backward_passes_per_step(wrong)
    peers.assert_same_bits(*model.parameters())


def test_gradients_dropped_by_the_model_are_not_reduced(peers: Peers) -> None:
    model, expected = two_layers(), two_layers()
    train_alone(expected, 1, peers.size)
    optimizer = wrapped(model, backward_passes_per_step=PASSES, groups=1)
    for _ in range(2):  # the first round is dropped
        model.zero_grad()
        for number in range(PASSES):
            backward(model, number, [peers.rank])
    optimizer.step()
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_a_pass_after_synchronize_is_reduced_too(peers: Peers) -> None:
    model = linear(1)
    optimizer = wrapped(model, backward_passes_per_step=2)
    for number in range(2):
        backward(model, number, [peers.rank])
    optimizer.synchronize()
    backward(model, 2, [peers.rank])
    optimizer.step()
    peers.assert_same_bits(*model.parameters())


def test_gradients_changed_during_their_reduction_are_refused(peers: Peers) -> None:
    model = linear(1)
    optimizer = wrapped(model)
    backward(model, 0, [peers.rank])
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
    with pytest.raises(RuntimeError, match=r"weight.*synchronize\(\) before clipping"):
        optimizer.step()
    optimizer.zero_grad()
    backward(model, 0, [peers.rank])
    optimizer.step()
    peers.assert_same_bits(*model.parameters())
