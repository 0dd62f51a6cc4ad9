"""Messages cut into small pieces change no result; tensors of more than 2^31 elements take this path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from disagreement import assert_disagreement
from harness.peers import Peers

import hora.torch as hvd

RANKS = (2, 3)
Restart = Callable[..., None]
Tensors = list[torch.Tensor]
DTYPES = [torch.uint8, torch.float16, torch.int64, torch.float64]


@pytest.fixture(params=[1, 7, 1000, 1 << 16])
def piece(request: pytest.FixtureRequest, restart: Restart) -> int:
    restart(HORA_PIECE_BYTES=request.param)
    return int(request.param)


def tensors_of_ranks(length: int, dtype: torch.dtype) -> Tensors:
    return [(torch.arange(length) % 50 + rank).to(dtype) for rank in range(hvd.size())]


def shares(tensor: torch.Tensor) -> Tensors:
    """Return each rank's rows; the first ranks get one more."""
    return list(torch.tensor_split(tensor, hvd.size()))


def alltoall(everyone: Tensors) -> tuple[Tensors, Tensors]:
    mine = everyone[hvd.rank()]
    result, _ = hvd.alltoall(mine, [len(share) for share in shares(mine)])
    return [result], [torch.cat([shares(each)[hvd.rank()] for each in everyone])]


def allgather(everyone: Tensors) -> tuple[Tensors, Tensors]:
    ragged = [each[: len(each) - rank] for rank, each in enumerate(everyone)]
    return [hvd.allgather(ragged[hvd.rank()])], [torch.cat(ragged)]


def in_groups(tensor: torch.Tensor) -> Tensors:
    """Return a tensor in parts: several pieces, none, one element, and all of it."""
    return [tensor[1:], tensor[:0], tensor[:1], tensor]


# Each returns what the collective gave and what it must give.
COLLECTIVES: dict[str, Callable[[Tensors], tuple[Tensors, Tensors]]] = {
    "allreduce": lambda everyone: ([hvd.allreduce(everyone[hvd.rank()], op=hvd.Sum)], [sum(everyone)]),
    "allreduce_": lambda everyone: (
        [hvd.allreduce_(everyone[hvd.rank()].clone(), op=hvd.Max)],
        [everyone[-1]],
    ),
    "allgather": allgather,
    "broadcast": lambda everyone: ([hvd.broadcast(everyone[hvd.rank()], 1)], [everyone[1]]),
    "broadcast_": lambda everyone: (
        [hvd.broadcast_(everyone[hvd.rank()].clone(), hvd.size() - 1)],
        [everyone[-1]],
    ),
    "alltoall": alltoall,
    "reducescatter": lambda everyone: (
        [hvd.reducescatter(everyone[hvd.rank()], op=hvd.Sum)],
        [shares(sum(everyone))[hvd.rank()]],
    ),
    "grouped_allreduce": lambda everyone: (
        hvd.grouped_allreduce(in_groups(everyone[hvd.rank()]), op=hvd.Sum),
        in_groups(sum(everyone)),
    ),
    "grouped_allgather": lambda everyone: (
        hvd.grouped_allgather(in_groups(everyone[hvd.rank()])),
        [torch.cat(parts) for parts in zip(*map(in_groups, everyone), strict=True)],
    ),
    "grouped_reducescatter": lambda everyone: (
        hvd.grouped_reducescatter(in_groups(everyone[hvd.rank()]), op=hvd.Sum),
        [shares(part)[hvd.rank()] for part in in_groups(sum(everyone))],
    ),
}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective(collective: str, piece: int, peers: Peers) -> None:
    for dtype in DTYPES:
        for length in (5, 3 * piece + 1):
            results, expected = COLLECTIVES[collective](tensors_of_ranks(length, dtype))
            assert len(results) == len(expected)
            for result, right in zip(results, expected, strict=True):
                assert result.dtype == dtype
                assert torch.equal(result, right)


def test_columns_are_cut_too(piece: int, peers: Peers) -> None:
    """A row that is longer than a piece."""
    everyone = [torch.full((peers.size, piece + 3), float(rank)) for rank in range(peers.size)]
    mine = everyone[peers.rank]
    assert torch.equal(hvd.alltoall(mine), torch.cat([each[:1] for each in everyone]))
    assert torch.equal(hvd.reducescatter(mine, op=hvd.Sum), sum(everyone)[:1])
    assert torch.equal(hvd.allgather(mine), torch.cat(everyone))


def test_adaptive_summation(piece: int, peers: Peers) -> None:
    same = torch.arange(3.0 * min(piece, 1000) + 1, dtype=torch.float64)
    torch.testing.assert_close(hvd.allreduce(same, op=hvd.Adasum), same)


def test_sparse_tensors(piece: int, peers: Peers) -> None:
    entries = 3 * min(piece, 1000) + 1
    tensor = torch.zeros(2 * entries, 3)
    tensor[peers.rank :: 2] = peers.rank + 1.0
    result = hvd.sparse_allreduce_async(tensor.to_sparse(1), "entries", hvd.Sum)()
    assert torch.equal(result.to_dense(), hvd.allreduce(tensor, op=hvd.Sum))


def test_objects_and_parameters(piece: int, peers: Peers) -> None:
    value = bytes(range(256)) * (1 if piece == 1 else 40)
    assert hvd.broadcast_object(value if peers.rank == 0 else None) == value
    assert hvd.allgather_object(value[peers.rank :]) == [value[rank:] for rank in range(peers.size)]
    params: dict[str, Any] = {f"p{number}": torch.full((500,), float(peers.rank)) for number in range(3)}
    hvd.broadcast_parameters(params, root_rank=1)
    assert all((tensor == 1).all() for tensor in params.values())


def test_errors(piece: int, peers: Peers) -> None:
    mine = torch.ones(3 * min(piece, 1000) + peers.rank)
    sent = {str(rank): {"shape": f"[{3 * min(piece, 1000) + rank}]"} for rank in range(peers.size)}
    assert_disagreement(peers, lambda: hvd.allreduce_(mine, name="cut", op=hvd.Sum), "cut", sent, [mine])


def test_several_mebibytes(restart: Restart, peers: Peers) -> None:
    restart(HORA_PIECE_BYTES=1 << 20)
    everyone = tensors_of_ranks((3 << 20) + 1, torch.uint8)
    for collective in COLLECTIVES.values():
        for result, right in zip(*collective(everyone), strict=True):
            assert torch.equal(result, right)
    value = bytes(5 << 20) + b"end"
    assert hvd.broadcast_object(value if peers.rank == 0 else None) == value
