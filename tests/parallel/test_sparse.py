"""Reducing sparse tensors equals reducing them dense, whatever entries each rank has."""

from __future__ import annotations

import pytest
import torch
from disagreement import assert_works
from harness.peers import Peers

import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3)

# Rows that each rank has entries in.
ROWS: dict[str, list[list[int]]] = {
    "disjoint": [[0, 5], [7], [1, 9]],
    "overlapping": [[0, 5, 7], [5, 7], [7, 0]],
    "repeated": [[3, 3, 3, 1], [1, 1], [3]],
    "none on rank 0": [[], [4, 2, 2], []],
    "none": [[], [], []],
}


def sparse(rows: list[int], values: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(torch.tensor([rows], dtype=torch.int64), values, (10, 3))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_dense_reduction(rows: str, op: int, dtype: torch.dtype, peers: Peers) -> None:
    mine = ROWS[rows][peers.rank]
    values = torch.randn(len(mine), 3, dtype=dtype, generator=torch.Generator().manual_seed(peers.rank))
    tensor = sparse(mine, values)
    dense = hvd.allreduce(tensor.to_dense(), op=op)
    for name in ("sparse", None):
        result = hvd.sparse_allreduce_async(tensor, name, op)()
        assert result.is_sparse and result.dtype == dtype and result.shape == (10, 3)
        torch.testing.assert_close(result.to_dense(), dense)
        peers.assert_same_bits(result.to_dense())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_added_in_float32(dtype: torch.dtype, peers: Peers) -> None:
    step = torch.finfo(dtype).eps
    mine = sparse([4], torch.full((1, 3), 1.0 if peers.rank == 0 else step / 2, dtype=dtype))
    for op in (hvd.Sum, hvd.Average):
        result = hvd.sparse_allreduce_async(mine, "halves", op)()
        assert torch.equal(result.to_dense(), hvd.allreduce(mine.to_dense(), op=op))
        assert result.is_coalesced()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_average_of_integers_is_truncated(dtype: torch.dtype, peers: Peers) -> None:
    for value in (7, 2**30 + 1 if dtype is torch.int64 else 9, 3 if dtype is torch.uint8 else -3):
        mine = sparse([1, 1, peers.rank + 2], torch.full((3, 3), value + peers.rank, dtype=dtype))
        for op in (hvd.Average, hvd.Sum):
            result = hvd.sparse_allreduce_async(mine, "integers", op)()
            assert result.dtype == dtype
            assert torch.equal(result.to_dense(), hvd.allreduce(mine.to_dense(), op=op))


def test_average_of_bool_is_refused(peers: Peers) -> None:
    with pytest.raises(ValueError, match="bool"):
        hvd.sparse_allreduce_async(sparse([1], torch.ones(1, 3, dtype=torch.bool)), "flags")
    assert_works(peers, "flags")


def test_several_sparse_dimensions_and_no_dense_ones(peers: Peers) -> None:
    tensor = torch.eye(4).to_sparse() * (peers.rank + 1)
    result = hvd.sparse_allreduce_async(tensor, "eye", hvd.Sum)()
    assert torch.equal(result.to_dense(), torch.eye(4) * (peers.size * (peers.size + 1) / 2))


def test_repeated_indices_are_merged_before_they_are_sent(peers: Peers) -> None:
    tensor = sparse([6] * 10_000, torch.ones(10_000, 3))
    before = hvd.metrics()["bytes"]
    result = hvd.sparse_allreduce_async(tensor, "merged", hvd.Sum)()
    assert hvd.metrics()["bytes"] - before < 100
    assert result.to_dense()[6].tolist() == [10_000 * peers.size] * 3


def test_embedding_gradients(peers: Peers) -> None:
    torch.manual_seed(3)
    layer = torch.nn.Embedding(1000, 8, sparse=True)
    layer(torch.tensor([peers.rank, 7, 7, 100 + peers.rank])).square().sum().backward()
    gradient = layer.weight.grad
    result = hvd.sparse_allreduce_async(gradient, "embedding")()
    torch.testing.assert_close(result.to_dense(), hvd.allreduce(gradient.to_dense()))


def test_in_a_process_set(peers: Peers) -> None:
    pair = hvd.add_process_set([0, 1]) if peers.size > 2 else hvd.global_process_set
    if pair.included():
        result = hvd.sparse_allreduce_async(sparse([peers.rank], torch.ones(1, 3)), "x", process_set=pair)()
        assert result.to_dense()[:3, 0].tolist() == [0.5, 0.5, 0]
    hvd.remove_process_set(pair)


def test_ranks_that_differ(peers: Peers) -> None:
    extents = (5, 3) if peers.rank == 0 else (6, 3)
    tensor = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 3), extents)
    with pytest.raises(HorovodInternalError, match=r"'extents': rank 1 sent .* extents \[6\]") as caught:
        hvd.sparse_allreduce_async(tensor, "extents")()
    peers.assert_same(str(caught.value))
    columns = 2 if peers.rank == 0 else 3
    tensor = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, columns), (5, columns))
    with pytest.raises(HorovodInternalError, match="columns"):
        hvd.sparse_allreduce_async(tensor, "columns")()
    assert_works(peers, "columns.values")


def test_refusal_reaches_the_peers(peers: Peers) -> None:
    for name in ("refused", None):
        tensor = torch.ones(10, 3) if peers.rank == 0 else sparse([1], torch.ones(1, 3))
        expected = ValueError if peers.rank == 0 else HorovodInternalError
        with pytest.raises(expected):
            hvd.sparse_allreduce_async(tensor, name)()
        with pytest.raises(ValueError, match="Average or Sum"):
            hvd.sparse_allreduce_async(sparse([1], torch.ones(1, 3)), name, hvd.Max)
    assert_works(peers, "refused.values")


def test_while_a_rank_has_joined(peers: Peers) -> None:
    if peers.rank > 0:
        result = hvd.sparse_allreduce_async(sparse([peers.rank], torch.ones(1, 3)), "joined")()
        others = peers.size - 1
        assert result.to_dense()[1 : peers.size, 0].tolist() == [1 / others] * others
    hvd.join()
