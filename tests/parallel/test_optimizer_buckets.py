"""Gradients in buckets: where they lie, and what a user may do with them."""

from __future__ import annotations

import copy
import gc
import pickle
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness.peers import Peers
from small_models import assert_close, data, linear, reductions, sgd

import hora.torch as hvd
from hora.torch import buckets

RANKS = (2, 3)


def layers(count: int = 3) -> torch.nn.Sequential:
    return torch.nn.Sequential(*[linear(seed + 1) for seed in range(count)])


def wrapped(model: torch.nn.Module, **options: Any) -> Any:
    return hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), **options)


def backward(model: torch.nn.Module, seed: int, ranks: list[int], share: float = 1.0) -> None:
    (sum(model(data(seed, rank)).square().mean() for rank in ranks) * share).backward()


def train(model: torch.nn.Module, optimizer: Any, steps: int, ranks: list[int]) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        backward(model, step, ranks, 1 / len(ranks))
        optimizer.step()


def bucketed(peers: Peers, **options: Any) -> tuple[torch.nn.Sequential, Any, torch.nn.Sequential, Any]:
    """Return a model whose gradients lie in buckets and its optimizer; another, trained likewise alone."""
    model, expected = layers(), layers()
    optimizer, inner = wrapped(model, **options), sgd(expected)
    train(model, optimizer, 2, [peers.rank])
    train(expected, inner, 2, list(range(peers.size)))
    assert len(storages(model)) == 1
    return model, optimizer, expected, inner


def storages(model: torch.nn.Module) -> set[int]:
    return {parameter.grad.untyped_storage().data_ptr() for parameter in model.parameters()}


def go_on(model: Any, optimizer: Any, expected: Any, inner: Any, peers: Peers) -> None:
    """Expect the same weights after one more step."""
    train(model, optimizer, 1, [peers.rank])
    train(expected, inner, 1, list(range(peers.size)))
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_gradients_follow_each_other_backwards_at_cache_lines(peers: Peers) -> None:
    model, *_ = bucketed(peers)
    addresses = [parameter.grad.data_ptr() for parameter in model.parameters()]
    assert addresses == sorted(addresses, reverse=True)
    assert all(address % 64 == 0 for address in addresses)
    first, last = addresses[-1], addresses[0]
    assert last - first == sum(-(-p.grad.nbytes // 64) * 64 for p in list(model.parameters())[1:])


def test_what_lies_between_gradients_stays_zero(peers: Peers) -> None:
    model, optimizer, *_ = bucketed(peers, op=hvd.Sum)
    train(model, optimizer, 3, [peers.rank])
    whole = torch.empty(0, dtype=torch.float64).set_(model[0].weight.grad.untyped_storage())
    own = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    assert whole.numel() > own.numel()
    assert whole.count_nonzero() == own.count_nonzero()


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_stay_the_same_tensors(set_to_none: bool, peers: Peers) -> None:
    model, optimizer, *_ = bucketed(peers)
    before = [parameter.grad for parameter in model.parameters()]
    places = [gradient.data_ptr() for gradient in before]
    for step in range(3):
        optimizer.zero_grad(set_to_none=set_to_none)
        assert all((parameter.grad is None) == set_to_none for parameter in model.parameters())
        backward(model, step, [peers.rank])
        optimizer.step()
    assert all(parameter.grad is old for parameter, old in zip(model.parameters(), before, strict=True))
    assert [parameter.grad.data_ptr() for parameter in model.parameters()] == places


DETACHING: dict[str, Callable[[torch.nn.Module], Any]] = {
    "none": lambda model: [setattr(p, "grad", None) for p in model.parameters()],
    "one none": lambda model: setattr(model[1].weight, "grad", None),
    "clone": lambda model: [setattr(p, "grad", p.grad.clone()) for p in model.parameters()],
    "detach": lambda model: [setattr(p, "grad", p.grad.detach()) for p in model.parameters()],
    "detach_": lambda model: [p.grad.detach_() for p in model.parameters()],
    "requires_grad_": lambda model: [p.grad.requires_grad_(False) for p in model.parameters()],
    "other data": lambda model: [setattr(p.grad, "data", p.grad.clone()) for p in model.parameters()],
    "share_memory": lambda model: model.share_memory(),
    "there and back": lambda model: model.float().double(),
}


@pytest.mark.parametrize("zeroing", ["model", "in place"])
@pytest.mark.parametrize("way", DETACHING)
def test_gradients_detached_by_the_user_are_taken_back(way: str, zeroing: str, peers: Peers) -> None:
    model, optimizer, expected, inner = bucketed(peers)
    for each in (model, expected):
        DETACHING[way](each)
        each.zero_grad(set_to_none=zeroing == "model")
    go_on(model, optimizer, expected, inner, peers)
    assert len(storages(model)) == 1


def test_a_gradient_without_backward_is_reduced(peers: Peers) -> None:
    model, optimizer, *_ = bucketed(peers)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, float(peers.rank))
    optimizer.step()
    mean = (peers.size - 1) / 2
    assert all(parameter.grad.eq(mean).all() for parameter in model.parameters())
    assert len(storages(model)) == 1


@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_large_gradient_moves_once_if_it_is_kept(set_to_none: bool, peers: Peers) -> None:
    model, expected = (torch.nn.Sequential(linear(1), linear(2, outputs=4000)) for _ in range(2))
    optimizer, inner = wrapped(model), sgd(expected)
    weight, shared, places = model[1].weight, [], set()
    for step in range(5):
        optimizer.zero_grad(set_to_none=set_to_none)
        backward(model, step, [peers.rank])
        optimizer.step()
        shared.append(weight.grad is optimizer._reduction._members[id(weight)].section)
        places.add(weight.grad.data_ptr())
        inner.zero_grad()
        backward(expected, step, list(range(peers.size)), 1 / peers.size)
        inner.step()
    assert shared == ([False] * 5 if set_to_none else [False, True, True, True, True])
    assert set_to_none or len(places) == 2
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


class Mixed(torch.nn.Module):
    """Parameters of several dtypes, shapes and strides; each is used on some ranks only."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        kinds = [torch.float32, torch.float64, torch.bfloat16, torch.float32]
        shapes: list[tuple[int, ...]] = [(), (1,), (17,), (3, 5), (2, 3, 4, 5), (0, 4), (100, 40)]
        self.all = torch.nn.ParameterList(
            torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes for dtype in kinds
        )
        for parameter in self.all:
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        self.all.append(torch.nn.Parameter(torch.randn(6, 4).t()))
        self.all.append(torch.nn.Parameter(torch.randn(6, 4)[:, ::2]))

    def loss(self, step: int, rank: int) -> torch.Tensor:
        used = [p for number, p in enumerate(self.all) if (number + step) % 3 != rank]
        return sum((parameter.double() * (rank + 1) * (step + 2)).sum() for parameter in used)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("limit", [64, 4096, 1 << 20])
def test_any_parameters_used_on_some_ranks_only(
    limit: int, set_to_none: bool, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "BUCKET_BYTES", limit)
    model = Mixed()
    optimizer = wrapped(model, op=hvd.Sum)
    for step in range(4):
        optimizer.zero_grad(set_to_none=set_to_none)
        model.loss(step, peers.rank).backward()
        optimizer.step()
        for number, parameter in enumerate(model.all):
            expected = sum((r + 1) * (step + 2) for r in range(peers.size) if (number + step) % 3 != r)
            assert parameter.grad.eq(expected).all(), (step, number)
            assert parameter.grad.shape == parameter.shape
    dense = [p for p in model.all if p.numel() and p.stride() == torch.empty_like(p).stride()]
    assert all(parameter.grad.stride() == parameter.stride() for parameter in dense)
    own = {p.grad.untyped_storage().data_ptr() for p in model.all if p.numel()}
    assert len(own) == 3 if limit == 1 << 20 else len(own) > 6


@pytest.mark.parametrize("set_to_none", [True, False])
def test_reduction_starts_while_the_backward_pass_goes_on(
    set_to_none: bool, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 200)
    seen: list[int] = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, inputs: torch.Tensor) -> torch.Tensor:
            return inputs.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            peers.wait()
            end = time.monotonic() + 10
            while reductions() == before and time.monotonic() < end and waits:
                time.sleep(0.001)
            seen.append(reductions() - before)
            return gradient

    model = torch.nn.Sequential(linear(1), linear(2))
    optimizer = wrapped(model)
    for step in range(3):
        waits = step > 0  # the first step has no buckets yet
        optimizer.zero_grad(set_to_none=set_to_none)
        before = reductions()
        model[1](Watch.apply(model[0](data(0, peers.rank)))).square().mean().backward()
        optimizer.step()
    assert seen == [0, 1, 1]
    assert reductions() - before == 2


@pytest.mark.parametrize("moment", ["before the bucket is full", "after it is full"])
def test_a_changed_gradient_is_named(moment: str, peers: Peers) -> None:
    model, optimizer, *_ = bucketed(peers)
    optimizer.zero_grad()
    inputs = data(0, peers.rank)
    if moment == "before the bucket is full":
        model[2](inputs).sum().backward()
        with torch.no_grad():
            model[2].weight.grad.mul_(2)
        model[1](model[0](inputs)).sum().backward()
    else:
        model(inputs).sum().backward()
        with torch.no_grad():
            model[2].weight.grad.mul_(2)
    with pytest.raises(RuntimeError, match=r"changed .* reduced: optimizer\d+/2\.weight; call"):
        optimizer.step()
    train(model, optimizer, 2, [peers.rank])
    peers.assert_same_bits(*model.parameters())


def test_a_second_backward_pass_is_refused(peers: Peers) -> None:
    model, optimizer, expected, inner = bucketed(peers)
    for used in (model[2], model):  # a bucket that waits, and one that is being reduced
        optimizer.zero_grad()
        used(data(0, peers.rank)).sum().backward()
        with pytest.raises(AssertionError, match=r"2\.bias.*backward_passes_per_step"):
            used(data(0, peers.rank)).sum().backward()
    go_on(model, optimizer, expected, inner, peers)


def test_stepping_while_a_bucket_waits_is_refused(peers: Peers) -> None:
    model, optimizer, expected, inner = bucketed(peers)
    model.zero_grad()
    model[2](data(0, peers.rank)).sum().backward()
    with optimizer.skip_synchronize(), pytest.raises(AssertionError, match="skip_synchronize"):
        optimizer.step()
    go_on(model, optimizer, expected, inner, peers)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("dropped", ["some", "all"])
def test_gradients_dropped_by_the_model_are_reduced_once_more(
    dropped: str, passes: int, peers: Peers
) -> None:
    model, optimizer, *_ = bucketed(peers, op=hvd.Sum, backward_passes_per_step=passes)
    optimizer.zero_grad()
    ones = torch.ones(1, 4, dtype=torch.float64)
    for scale in (5, 1):  # gradients of the last layers are those of the second time, of the others the first
        redone = model if dropped == "all" or scale == 5 else model[2]
        for parameter in redone.parameters():
            parameter.grad = None
        for _ in range(passes):
            sum((scale * layer(ones)).sum() for layer in model if redone in (model, layer)).backward()
    optimizer.synchronize()
    first = 1 if dropped == "all" else 5
    for layer, scale in zip(model, (first, first, 1), strict=True):
        assert layer.weight.grad.eq(scale * passes * peers.size).all()
    with optimizer.skip_synchronize():
        optimizer.step()
    train(model, optimizer, 2, [peers.rank])
    assert len(storages(model)) == 1
    peers.assert_same_bits(*model.parameters())


def test_a_dropped_gradient_without_all_its_passes_is_reduced_too(peers: Peers) -> None:
    model, optimizer, *_ = bucketed(peers, op=hvd.Sum, backward_passes_per_step=2)
    optimizer.zero_grad()
    ones = torch.ones(1, 4, dtype=torch.float64)
    for _ in range(2):
        model(ones).sum().backward()
    model[2].zero_grad()
    (3 * model[2](ones)).sum().backward()
    optimizer.step()
    assert model[2].weight.grad.eq(3 * peers.size).all()
    peers.assert_same_bits(*model.parameters())


@pytest.mark.parametrize("frozen", ["a layer", "all"])
def test_frozen_parameters_keep_their_gradients(frozen: str, peers: Peers) -> None:
    model, optimizer, *_ = bucketed(peers, op=hvd.Sum)
    part = model if frozen == "all" else model[1]
    kept = [parameter.grad.clone() for parameter in part.parameters()]
    part.requires_grad_(False)
    for step in range(2):
        for layer in (model[0], model[2]):
            layer.zero_grad()
        if frozen == "a layer":
            backward(model, step, [peers.rank])
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            optimizer.step()
    grads = [parameter.grad for parameter in part.parameters()]
    if frozen == "a layer":
        assert all(torch.equal(gradient, old) for gradient, old in zip(grads, kept, strict=True))
    part.requires_grad_(True)
    train(model, optimizer, 2, [peers.rank])
    peers.assert_same_bits(*model.parameters())
    assert len(storages(model)) == 1


def test_a_bucket_with_a_frozen_part_starts_during_the_backward_pass(peers: Peers) -> None:
    model, optimizer, *_ = bucketed(peers)
    model[0].requires_grad_(False)
    train(model, optimizer, 1, [peers.rank])
    before = reductions()
    optimizer.zero_grad()
    backward(model, 5, [peers.rank])
    end = time.monotonic() + 10
    while reductions() == before and time.monotonic() < end:
        time.sleep(0.001)
    assert reductions() == before + 1
    optimizer.step()
    assert reductions() == before + 1


class Changing(torch.nn.Module):
    """A layer and an embedding whose gradients can become something else."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.table, self.dense = torch.nn.Embedding(5, 4, dtype=torch.float64), linear(3)

    def forward(self, rank: int) -> torch.Tensor:
        return self.dense(self.table(torch.tensor([rank, 3]))).square().mean()


def become_sparse(model: Changing) -> None:
    model.table.sparse = True


def become_float(model: Changing) -> None:
    model.zero_grad()
    model.table.weight.data = model.table.weight.data.float()
    model.dense.float()


def become_larger(model: Changing) -> None:
    model.zero_grad()
    model.table.weight.data = torch.cat([model.table.weight.data, torch.ones(2, 4, dtype=torch.float64)])


@pytest.mark.parametrize("change", [become_sparse, become_float, become_larger])
def test_gradients_that_cease_to_fit(change: Callable[[Changing], None], peers: Peers) -> None:
    model, expected = Changing(), Changing()
    optimizer, inner = wrapped(model), sgd(expected)
    for step in range(6):
        if step == 3:
            change(model), change(expected)
        optimizer.zero_grad()
        model(peers.rank).backward()
        optimizer.step()
        inner.zero_grad()
        (sum(expected(rank) for rank in range(peers.size)) / peers.size).backward()
        inner.step()
        assert model.table.weight.grad.is_sparse == (change is become_sparse and step >= 3)
    peers.assert_same_bits(*model.parameters())
    for mine, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12 if mine.dtype == torch.float64 else 1e-6)
    assert len(storages(model.dense)) == 1
    assert change is become_sparse or len(storages(model)) == 1


@pytest.mark.parametrize("change", [become_sparse, become_float, become_larger])
def test_gradients_that_cease_to_fit_on_one_rank_fail_on_all(
    change: Callable[[Changing], None], peers: Peers
) -> None:
    model = Changing()
    optimizer = wrapped(model)
    for step in range(3):
        optimizer.zero_grad()
        if step == 2 and peers.rank == 1:
            change(model)
        model(peers.rank).backward()
        if step == 2:
            with pytest.raises(hvd.HorovodInternalError, match=r"bucket 0: dense\.bias to table\.weight"):
                optimizer.step()
        else:
            optimizer.step()


def test_differentiable_gradients_stay_what_they_are(peers: Peers) -> None:
    model, optimizer, *_ = bucketed(peers)
    for _ in range(2):
        optimizer.zero_grad()
        model(data(0, peers.rank)).square().mean().backward(create_graph=True)
        optimizer.synchronize()
        assert all(parameter.grad.requires_grad for parameter in model.parameters())
        peers.assert_same_bits(*(parameter.grad for parameter in model.parameters()))
    optimizer.zero_grad()


def test_ranks_that_order_parameters_differently_have_no_buckets(peers: Peers) -> None:
    model, expected = layers(), layers()
    named = list(model.named_parameters())
    if peers.rank == 1:
        named.reverse()
    inner = torch.optim.SGD([parameter for _, parameter in named], lr=0.1)
    optimizer = hvd.DistributedOptimizer(inner, named)
    train(model, optimizer, 3, [peers.rank])
    train(expected, sgd(expected), 3, list(range(peers.size)))
    assert len(storages(model)) == 6
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_a_rank_without_shared_memory_left(restart: Callable[..., None], peers: Peers) -> None:
    restart(HORA_SHARED_HEAP_BYTES=4096 if hvd.rank() == 1 else 1 << 30)
    model, expected = (torch.nn.Sequential(linear(1), linear(2, outputs=300)) for _ in range(2))
    train(model, wrapped(model), 3, [peers.rank])
    train(expected, sgd(expected), 3, list(range(peers.size)))
    assert len(storages(model)) == 1
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


@pytest.mark.parametrize("first_missing", [False, True])
def test_a_new_session_makes_new_buckets(
    first_missing: bool, restart: Callable[..., None], peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 200)
    model, expected = layers(), layers()
    optimizer, inner = wrapped(model, op=hvd.Sum), sgd(expected)
    for step in range(5):
        before = reductions()
        optimizer.zero_grad()
        if step == 2:
            restart()
        if step != 2 or not first_missing or peers.rank == 0:
            backward(model, step, [peers.rank])
        optimizer.step()
        lone = step in (0, 2)
        assert reductions() - (0 if step == 2 else before) == (6 + 1 if lone else 3)
        assert len(storages(model)) == (6 if lone else 3) or step == 2
        inner.zero_grad()
        backward(expected, step, [0] if step == 2 and first_missing else list(range(peers.size)))
        inner.step()
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_buckets_are_made_when_all_ranks_are_back(peers: Peers) -> None:
    model = layers()
    optimizer = wrapped(model)
    if peers.rank > 0:
        train(model, optimizer, 2, [peers.rank])
    hvd.join()
    hvd.broadcast_parameters(model.state_dict(), root_rank=1)
    train(model, optimizer, 2, [peers.rank])
    assert len(storages(model)) == 1
    if peers.rank > 0:
        train(model, optimizer, 1, [peers.rank])
    hvd.join()
    hvd.broadcast_parameters(model.state_dict(), root_rank=1)
    train(model, optimizer, 2, [peers.rank])
    peers.assert_same_bits(*model.parameters())


def test_parameters_added_later_get_a_bucket_of_their_own(peers: Peers) -> None:
    model, optimizer, *_ = bucketed(peers)
    last = linear(9)
    optimizer.add_param_group({"params": list(last.parameters())})
    both = torch.nn.Sequential(*model, last)
    train(both, optimizer, 3, [peers.rank])
    assert len(storages(model)) == len(storages(last)) == 1
    assert storages(model) != storages(last)
    peers.assert_same_bits(*both.parameters())


def test_copied_gradients_are_ordinary_tensors(peers: Peers) -> None:
    model, optimizer, *_ = bucketed(peers)
    gradients = [parameter.grad for parameter in model.parameters()]
    kept = [gradient.clone() for gradient in gradients]
    copies = [copy.deepcopy(gradients), pickle.loads(pickle.dumps(gradients))]
    train(model, optimizer, 1, [peers.rank])
    assert not any(map(torch.equal, gradients, kept))
    assert all(all(map(torch.equal, each, kept)) for each in copies)


@pytest.mark.parametrize("first", ["optimizer", "model"])
def test_memory_is_freed_with_optimizer_and_model(first: str, peers: Peers) -> None:
    gc.collect()  # of what other tests have left
    model, optimizer, *_ = bucketed(peers)
    flat = weakref.ref(optimizer._reduction._membership.buckets[0].flat)
    weight = weakref.ref(model[0].weight)
    places = storages(model)
    owners = [model, optimizer]
    del model, optimizer
    del owners[first == "optimizer"]
    gc.collect()
    assert weight() is not None
    owners.clear()
    gc.collect()
    assert flat() is None and weight() is None
    model, _optimizer, *_ = bucketed(peers)
    assert storages(model) == places
