"""DistributedOptimizer with the sparse gradients of embeddings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from harness.peers import Peers
from small_models import assert_close, linear, sgd

import hora.torch as hvd
from hora import _core

RANKS = (2, 3)
ROWS, COLUMNS = 1000, 8
INDICES = {
    "repeated": lambda rank: [3, 3, 3],
    "disjoint": lambda rank: [10 * rank, 10 * rank + 1],
    "overlapping": lambda rank: [rank, rank + 1, 500],
    "none on rank 0": lambda rank: [] if rank == 0 else [1, 2, 2],
    "none": lambda rank: [],
}


def embedding(sparse: bool) -> torch.nn.Embedding:
    torch.manual_seed(1)
    return torch.nn.Embedding(ROWS, COLUMNS, sparse=sparse, dtype=torch.float64)


def backward(model: torch.nn.Embedding, indices: list[int], scale: float = 1.0) -> None:
    rows = model(torch.tensor(indices, dtype=torch.int64))
    (scale * (rows * torch.arange(COLUMNS)).sum()).backward()


@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum])
@pytest.mark.parametrize("kind", INDICES)
def test_equals_the_dense_reduction(kind: str, op: int, peers: Peers) -> None:
    model, expected = embedding(True), embedding(False)
    optimizer, inner = hvd.DistributedOptimizer(sgd(model), op=op), sgd(expected)
    parts = peers.size if op == hvd.Average else 1
    for _ in range(3):
        optimizer.zero_grad()
        backward(model, INDICES[kind](peers.rank))
        optimizer.step()
        assert model.weight.grad.is_sparse
        inner.zero_grad()
        for rank in range(peers.size):
            backward(expected, INDICES[kind](rank), 1 / parts)
        inner.step()
    peers.assert_same_bits(model.weight)
    torch.testing.assert_close(model.weight, expected.weight, rtol=0, atol=1e-12)


def test_beside_dense_gradients_with_an_adaptive_optimizer(peers: Peers) -> None:
    model = torch.nn.Sequential(embedding(True), torch.nn.Linear(COLUMNS, 1, dtype=torch.float64))
    sparse = hvd.DistributedOptimizer(torch.optim.SparseAdam(list(model[0].parameters()), lr=0.1))
    dense = hvd.DistributedOptimizer(torch.optim.Adam(model[1].parameters(), lr=0.1))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(4):
        model(torch.tensor([peers.rank, step])).square().mean().backward()
        for optimizer in (sparse, dense):
            optimizer.step()
            optimizer.zero_grad()
    peers.assert_same_bits(*model.parameters())


class Mixed(torch.nn.Module):
    """Two embeddings beside dense layers."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.users, self.dense, self.items = embedding(sparse), linear(3, COLUMNS, 2), embedding(sparse)

    def forward(self, users: list[int], items: list[int]) -> torch.Tensor:
        of_users, of_items = (
            table(torch.tensor(rows, dtype=torch.int64)).sum(0)
            for table, rows in ((self.users, users), (self.items, items))
        )
        return self.dense(of_users + 2 * of_items).square().sum()


@pytest.mark.parametrize("groups", [None, 2])
@pytest.mark.parametrize("sparse_as_dense", [False, True])
def test_dense_and_sparse_gradients_in_one_optimizer(
    sparse_as_dense: bool, groups: int | None, peers: Peers
) -> None:
    model, expected = Mixed(True), Mixed(False)
    optimizer = hvd.DistributedOptimizer(
        sgd(model, lr=0.01), model.named_parameters(), groups=groups, sparse_as_dense=sparse_as_dense
    )
    inner = sgd(expected, lr=0.01)
    for step in range(3):
        users = [[] if rank == 0 else [step, rank, rank] for rank in range(peers.size)]
        items = [[5 * rank, step] if rank != 1 else [] for rank in range(peers.size)]
        optimizer.zero_grad()
        model(users[peers.rank], items[peers.rank]).backward()
        optimizer.step()
        inner.zero_grad()
        (sum(map(expected, users, items)) / peers.size).backward()
        inner.step()
        assert model.users.weight.grad.is_sparse and not model.dense.weight.grad.is_sparse
        rows = model.users.weight.grad.coalesce().indices().flatten().tolist()
        assert set(rows) == {row for each in users for row in each}
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_missing_gradient_counts_as_zero_once_sparse_ones_were_seen(peers: Peers) -> None:
    model = embedding(True)
    before = model.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(sgd(model, lr=1.0))
    backward(model, [0])
    optimizer.step()
    optimizer.zero_grad()
    if peers.rank == 1:
        backward(model, [5])
    optimizer.step()
    peers.assert_same_bits(model.weight)
    gradient = torch.arange(COLUMNS, dtype=torch.float64)
    torch.testing.assert_close(model.weight[5], before[5] - gradient / peers.size)


def test_first_gradient_missing_on_a_rank_fails_on_all(peers: Peers) -> None:
    model = embedding(True)
    optimizer = hvd.DistributedOptimizer(sgd(model))
    if peers.rank == 1:
        backward(model, [5])
    with pytest.raises(hvd.HorovodInternalError, match="sparse_as_dense" if peers.rank == 1 else "allgather"):
        optimizer.step()


def test_repeats_are_merged_before_sending(peers: Peers) -> None:
    def bytes_of_step(indices: list[int]) -> int:
        optimizer.zero_grad()
        before = _core.counters()["bytes"]
        backward(model, indices)
        optimizer.step()
        return _core.counters()["bytes"] - before

    model = embedding(True)
    optimizer: Any = hvd.DistributedOptimizer(sgd(model))
    bytes_of_step([7])
    assert bytes_of_step([7] * 10_000) == bytes_of_step([7])


def test_several_passes(peers: Peers) -> None:
    model, expected = embedding(True), embedding(False)
    optimizer = hvd.DistributedOptimizer(sgd(model), backward_passes_per_step=2)
    backward(model, [peers.rank])
    backward(model, [peers.rank, 9])
    optimizer.step()
    for rank in range(peers.size):
        backward(expected, [rank, rank, 9], 1 / peers.size)
    sgd(expected).step()
    peers.assert_same_bits(model.weight)
    torch.testing.assert_close(model.weight, expected.weight, rtol=0, atol=1e-12)
