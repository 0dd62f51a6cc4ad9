"""DistributedOptimizer with groups of gradients, a predivide factor, and gradients made dense."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from harness.peers import Peers
from small_models import assert_close, data, linear, reductions, reductions_of, sgd

import hora.torch as hvd

RANKS = (2, 3)
STEPS = 3


def layers() -> torch.nn.Sequential:
    return torch.nn.Sequential(linear(1), torch.nn.Tanh(), linear(2), torch.nn.Tanh(), linear(3))


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, ranks: list[int]) -> None:
    for step in range(STEPS):
        optimizer.zero_grad()
        losses = [model(data(step, rank)).square().mean() for rank in ranks]
        (sum(losses) / len(ranks)).backward()
        optimizer.step()


def compare(peers: Peers, **options: Any) -> None:
    """Train with the options and expect the weights of one process on all data."""
    model, expected = layers(), layers()
    train(expected, sgd(expected), list(range(peers.size)))
    apart = {None: 0, 0: 0, "lists": 4, "generators": 4}.get(options.get("groups"), 6)
    apart = 6 if options.get("num_groups") else apart
    if options.get("groups") == "lists":
        options["groups"] = [list(model[4].parameters()), [model[0].weight, model[2].bias]]
    if options.get("groups") == "generators":
        options["groups"] = (layer.parameters() for layer in (model[4], model[0]))
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), **options)
    before = reductions()
    train(model, optimizer, [peers.rank])
    assert reductions() - before == reductions_of(STEPS, 6, apart)
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


@pytest.mark.parametrize("groups", [None, 0, 1, 2, 3, 6, 100, "lists", "generators"])
@pytest.mark.parametrize("factor", [1.0, 4.0, 0.3])
def test_groups_and_predivide_factor_keep_the_result(groups: Any, factor: float, peers: Peers) -> None:
    compare(peers, groups=groups, gradient_predivide_factor=factor)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_num_groups_is_another_spelling(peers: Peers) -> None:
    compare(peers, num_groups=2)


def test_a_group_starts_when_its_last_gradient_is_there(peers: Peers) -> None:
    model = layers()
    together = [model[0].weight, model[4].weight]
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), groups=[together])
    started: list[int] = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda _: started.append(len(optimizer._reduction._lone.pending))
        )
    model(data(0, peers.rank)).sum().backward()
    assert started[-1] == 6
    assert id(model[4].weight) in optimizer._reduction._lone.pending
    assert 5 not in started  # the last hook of the group adds both
    optimizer.step()
    peers.assert_same_bits(*model.parameters())


def test_ranks_may_group_differently(peers: Peers) -> None:
    compare(peers, groups=peers.rank + 1)


def test_groups_with_missing_and_frozen_gradients(peers: Peers) -> None:
    model = layers()
    model[2].requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), groups=2)
    for step in range(4):
        if step == 2:
            model[2].requires_grad_(True)
        if peers.rank != step % peers.size:
            model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    peers.assert_same_bits(*model.parameters())


def test_predivided_half_precision_sum_does_not_overflow(peers: Peers) -> None:
    weight = torch.nn.Parameter(torch.zeros(3, dtype=torch.float16))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=1.0), gradient_predivide_factor=float(peers.size)
    )
    (weight * 30000).sum().backward()
    optimizer.step()
    assert weight.tolist() == [-30000.0] * 3


@pytest.mark.parametrize("compression", ["none", "fp16"])
def test_sparse_gradients_made_dense(compression: str, peers: Peers) -> None:
    rows = [[rank, rank, 7] for rank in range(peers.size)]

    def make(sparse: bool) -> torch.nn.Embedding:
        torch.manual_seed(1)
        return torch.nn.Embedding(10, 4, sparse=sparse)

    model, expected = make(True), make(False)
    optimizer = hvd.DistributedOptimizer(
        sgd(model), sparse_as_dense=True, compression=getattr(hvd.Compression, compression)
    )
    inner = sgd(expected)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.tensor(rows[peers.rank])).sum().backward()
        optimizer.step()
        assert model.weight.grad.is_sparse
        inner.zero_grad()
        (sum(expected(torch.tensor(each)).sum() for each in rows) / peers.size).backward()
        inner.step()
    peers.assert_same_bits(model.weight)
    torch.testing.assert_close(
        model.weight, expected.weight, rtol=0, atol=1e-3 if compression == "fp16" else 1e-6
    )


def test_bad_groups_are_refused(peers: Peers) -> None:
    model = linear(1)
    for wrong in (-1, True, "two", [model.weight], [["weight"]], [[model.weight], [model.weight]]):
        with pytest.raises(ValueError, match="groups"):
            hvd.DistributedOptimizer(sgd(model), groups=wrong)
    with pytest.raises(ValueError, match="gradient_predivide_factor"):
        hvd.DistributedOptimizer(sgd(model), op=hvd.Sum, gradient_predivide_factor=2.0)
