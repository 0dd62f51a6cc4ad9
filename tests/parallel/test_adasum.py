"""Adaptive summation against its definition, computed on every rank in float64."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from disagreement import assert_works
from front_ends import FLOATS, FRONT_ENDS, FrontEnd
from harness.peers import Peers
from small_models import assert_close, data, linear, sgd

import hora.torch as hvd

RANKS = (2, 3, 4)

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-14}


def pair(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """Combine two vectors as the paper says; a vector of zeros changes nothing."""
    product, squares = (a * b).sum(), [(each * each).sum() for each in (a, b)]
    own, other = (1 - product / (2 * square) if square else 1.0 for square in squares)
    return own * a + other * b


def combine(vectors: list[numpy.ndarray]) -> numpy.ndarray:
    """Combine ranks in a binary tree; those beyond a power of two go to a rank below it first."""
    paired = 1 << (len(vectors).bit_length() - 1)
    tree = [pair(each, vectors[rank + paired]) if rank + paired < len(vectors) else each
            for rank, each in enumerate(vectors[:paired])]  # fmt: skip
    while len(tree) > 1:
        tree = [pair(*tree[rank : rank + 2]) for rank in range(0, len(tree), 2)]
    return tree[0]


def values(seed: int, rank: int, shape: Any) -> numpy.ndarray:
    return numpy.random.default_rng([seed, rank]).normal(size=shape)


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_equals_its_definition(front: FrontEnd, dtype: str, peers: Peers) -> None:
    if dtype not in front.dtypes:
        return
    for seed, shape in enumerate([(1,), (2,), (7,), (3, 5), (1000,), (), (0,), (100_003,)]):
        inputs = [front.tensor(values(seed, rank, shape), dtype) for rank in range(peers.size)]
        result = front.hvd.allreduce(inputs[peers.rank], op=front.hvd.Adasum)
        expected = combine([front.array(each) for each in inputs])
        numpy.testing.assert_allclose(
            front.array(result), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
        )
        peers.assert_same_bits(result)


def test_adds_what_is_orthogonal_and_averages_what_is_parallel(peers: Peers) -> None:
    own_axis = torch.eye(peers.size)[peers.rank]
    assert hvd.allreduce(own_axis, op=hvd.Adasum).tolist() == [1.0] * peers.size
    assert hvd.allreduce(torch.full((5,), 3.0), op=hvd.Adasum).tolist() == [3.0] * 5
    zero_but_one = torch.full((5,), 3.0 if peers.rank == 1 else 0.0)
    assert hvd.allreduce(zero_but_one, op=hvd.Adasum).tolist() == [3.0] * 5
    assert hvd.allreduce(torch.zeros(5), op=hvd.Adasum).tolist() == [0.0] * 5


def test_tensors_that_travel_together_combine_by_themselves(peers: Peers) -> None:
    tensors = [[torch.from_numpy(values(number, rank, 10 + number)) for number in range(8)]
               for rank in range(peers.size)]  # fmt: skip
    results = hvd.grouped_allreduce(tensors[peers.rank], op=hvd.Adasum, prescale_factor=2.0)
    for number, result in enumerate(results):
        expected = combine([2.0 * tensors[rank][number].numpy() for rank in range(peers.size)])
        numpy.testing.assert_allclose(result.numpy(), expected, rtol=1e-13)


def test_in_place_and_on_a_subset(peers: Peers) -> None:
    pair_of_ranks = hvd.add_process_set([0, peers.size - 1]) if peers.size > 2 else hvd.global_process_set
    if pair_of_ranks.included():
        tensor = torch.from_numpy(values(9, peers.rank, 6))
        assert hvd.allreduce_(tensor, op=hvd.Adasum, process_set=pair_of_ranks) is tensor
        expected = pair(values(9, 0, 6), values(9, peers.size - 1, 6))
        numpy.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-14)
    if peers.size > 2:
        hvd.remove_process_set(pair_of_ranks)


def test_ranks_that_have_joined_count_as_zero(peers: Peers) -> None:
    if peers.rank > 0:
        result = hvd.allreduce(torch.from_numpy(values(4, peers.rank, 6)), op=hvd.Adasum)
        expected = combine([values(4, rank, 6) * (rank > 0) for rank in range(peers.size)])
        numpy.testing.assert_allclose(result.numpy(), expected, rtol=1e-14)
    hvd.join()
    assert_works(peers, "afterwards")


def test_optimizer_combines_the_updates_of_all_ranks(peers: Peers) -> None:
    model = linear(1)
    optimizer = hvd.DistributedOptimizer(sgd(model, momentum=0.9), model.named_parameters(), op=hvd.Adasum)
    locals_ = [linear(1) for _ in range(peers.size)]
    plain = [sgd(each, momentum=0.9) for each in locals_]
    for step in range(4):
        optimizer.zero_grad()
        model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
        before = [each.detach().clone() for each in locals_[0].parameters()]
        for rank, (each, own) in enumerate(zip(locals_, plain, strict=True)):
            own.zero_grad()
            each(data(step, rank)).square().mean().backward()
            own.step()
        for number, start in enumerate(before):
            moved = [list(each.parameters())[number].detach() for each in locals_]
            update = combine([(each - start).numpy() for each in moved])
            for each in moved:
                each.copy_(start + torch.from_numpy(update))
    assert_close(model, locals_[0])
    peers.assert_same_bits(*model.parameters())


def test_optimizer_takes_a_parameter_without_gradient_on_some_ranks(peers: Peers) -> None:
    models = [linear(2), linear(3)]
    parameters = [parameter for model in models for parameter in model.parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.1), op=hvd.Adasum)
    assert list(optimizer._parameter_names.values()) == ["#0", "#1", "#2", "#3"]
    models[peers.rank % 2](data(1, peers.rank)).sum().backward()
    optimizer.step()
    peers.assert_same_bits(*parameters)


def test_optimizer_refuses_what_would_leave_ranks_apart(peers: Peers) -> None:
    model = linear(1)
    optimizer = hvd.DistributedOptimizer(sgd(model), op=hvd.Adasum)
    with pytest.raises(AssertionError, match="skip_synchronize"), optimizer.skip_synchronize():
        pass
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(data(1, peers.rank)).sum()).backward()
    with pytest.raises(RuntimeError, match="GradScaler"):
        scaler.step(optimizer)
    assert_works(peers, "afterwards")
