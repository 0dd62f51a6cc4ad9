"""Alltoall sends each rank its rows, whatever the splits, and tells how many came from whom."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from disagreement import assert_works
from harness.peers import Peers

import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3, 4)


# Row r: what rank r sends to ranks 0, 1, ...; the corner of the job's size counts.
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
    "negative": lambda size: [-1, 3, *[1] * (size - 2)] if size > 2 else [-1, size + 1],
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


def test_splits_that_change_under_one_name(peers: Peers) -> None:
    for step in range(30):
        splits = [(step + peers.rank + to) % 4 for to in range(peers.size)]
        _, received = hvd.alltoall(torch.ones(sum(splits), 2), splits, name="changing")
        assert received.tolist() == [(step + sender + peers.rank) % 4 for sender in range(peers.size)]
