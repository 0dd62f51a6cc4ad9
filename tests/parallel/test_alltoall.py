"""Alltoall sends each rank its rows, whatever the splits, and tells how many came from whom."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from disagreement import assert_disagreement, assert_works, one_against_others
from front_ends import FRONT_ENDS, FrontEnd, combinations
from harness.peers import Peers

import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3, 4)

# Row r: what rank r sends to ranks 0, 1, ...; the corner of the job's size counts.
PATTERNS: dict[str, list[list[int]]] = {
    "nothing": [[0] * 4] * 4,
    "equal": [[2] * 4] * 4,
    "nothing for rank 1": [[1, 0, 2, 3]] * 4,
    "nothing from rank 0": [[0] * 4, [1, 2, 0, 1], [3, 0, 1, 0], [0, 0, 0, 5]],
    "half takes no part": [[1, 2, 0, 0], [3, 4, 0, 0], [0] * 4, [0] * 4],
    "only to itself": [[3, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 4]],
    "documented": [[1, 2, 0, 0], [0, 1, 1, 0], [3, 0, 1, 0], [0, 0, 0, 1]],
    "long": [[20_000, 1, 0, 3], [0, 0, 30_000, 2], [1, 1, 1, 1], [0, 7, 0, 40_000]],
}


def sent_rows(sender: int, receiver: int, count: int) -> list[list[int]]:
    return [[sender, receiver, row % 100] for row in range(count)]


def exchanged(pattern: list[list[int]], peers: Peers) -> tuple[Any, Any, list[int]]:
    """Return what this rank sends, what it must receive, and how many rows from whom."""
    everyone = range(peers.size)
    received = [pattern[sender][peers.rank] for sender in everyone]
    mine = [row for to in everyone for row in sent_rows(peers.rank, to, pattern[peers.rank][to])]
    theirs = [row for sender in everyone for row in sent_rows(sender, peers.rank, received[sender])]
    return numpy.reshape(mine, (-1, 3)), numpy.reshape(theirs, (-1, 3)), received


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("front", "dtype"), combinations(("float32", "int64", "bfloat16", "uint8")), ids=str)
def test_patterns(front: FrontEnd, dtype: str, pattern: str, peers: Peers) -> None:
    mine, expected, counts = exchanged(PATTERNS[pattern], peers)
    splits = PATTERNS[pattern][peers.rank][: peers.size]
    result, received = front.hvd.alltoall(front.tensor(mine, dtype), splits=splits)
    assert front.dtype(result) == dtype
    assert front.dtype(received) == "int32"
    assert received.tolist() == counts
    numpy.testing.assert_array_equal(front.array(result), expected)


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_without_splits_all_get_equally_many(front: FrontEnd, peers: Peers) -> None:
    values = [[peers.rank * 10 + to] * 2 for to in range(peers.size) for _ in range(3)]
    expected = [[sender * 10 + peers.rank] * 2 for sender in range(peers.size) for _ in range(3)]
    assert front.hvd.alltoall(front.tensor(values, "int64")).tolist() == expected
    handle = front.hvd.alltoall_async(front.tensor(values, "int64"), name="equal")
    assert front.hvd.synchronize(handle).tolist() == expected
    assert tuple(front.hvd.alltoall(front.tensor(numpy.ones((0, 5)), "float32")).shape) == (0, 5)


@pytest.mark.parametrize("kind", [list, tuple, numpy.array, torch.tensor, "int32"])
def test_splits_of_any_integers(kind: Any, peers: Peers) -> None:
    splits = [rank + 1 for rank in range(peers.size)]
    given = torch.tensor(splits, dtype=torch.int32) if kind == "int32" else kind(splits)
    handle = hvd.alltoall_async(torch.ones(sum(splits)), given)
    while not hvd.poll(handle):
        pass
    result, received = hvd.synchronize(handle)
    assert received.tolist() == [peers.rank + 1] * peers.size
    assert len(result) == (peers.rank + 1) * peers.size


def test_only_one_rank_gives_splits(peers: Peers) -> None:
    splits = [1] * peers.size if peers.rank == 0 else None
    result = hvd.alltoall(torch.full((peers.size,), float(peers.rank)), splits)
    rows = result[0] if splits else result
    assert rows.tolist() == list(range(peers.size))


WRONG_SPLITS: dict[str, Any] = {
    "sum": lambda size: [2] * size,
    "length": lambda size: [1] * (size + 1),
    "negative": lambda size: [-1, 3, *[1] * (size - 2)] if size > 2 else [-1, size + 1],
    "floats": lambda size: torch.ones(size),
    "2-d": lambda size: torch.ones(1, size, dtype=torch.int32),
    "0-d": lambda size: torch.tensor(size),
    "text": lambda size: "1" * size,
}


@pytest.mark.parametrize("wrong", WRONG_SPLITS)
def test_wrong_splits_reach_the_peers(wrong: str, peers: Peers) -> None:
    for erring in range(peers.size):
        splits = WRONG_SPLITS[wrong](peers.size) if peers.rank == erring else [1] * peers.size
        expected = ValueError if peers.rank == erring else HorovodInternalError
        with pytest.raises(expected, match="splits"):
            hvd.alltoall(torch.ones(peers.size), splits, name="wrong")
        assert_works(peers, "wrong")


def test_rows_that_cannot_be_shared_equally(peers: Peers) -> None:
    with pytest.raises(ValueError, match="cannot be shared equally"):
        hvd.alltoall(torch.ones(peers.size + 1))
    assert_works(peers, "afterwards")


def test_later_dimensions_must_agree(peers: Peers) -> None:
    columns = 3 if peers.rank == 0 else 4
    sent = one_against_others(0, peers.size, {"shape": "[*,3]"}, {"shape": "[*,4]"})
    tensor = torch.ones(peers.size, columns)
    assert_disagreement(peers, lambda: hvd.alltoall(tensor, name="columns"), "columns", sent)


def test_scalar_is_refused(peers: Peers) -> None:
    with pytest.raises(HorovodInternalError, match="scalar"):
        hvd.alltoall(torch.tensor(1.0))
    assert_works(peers, "afterwards")


def test_splits_that_change_under_one_name(peers: Peers) -> None:
    for step in range(30):
        splits = [(step + peers.rank + to) % 4 for to in range(peers.size)]
        _, received = hvd.alltoall(torch.ones(sum(splits), 2), splits, name="changing")
        assert received.tolist() == [(step + sender + peers.rank) % 4 for sender in range(peers.size)]
