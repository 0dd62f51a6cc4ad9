"""Allgather concatenates rows in rank order, however many each rank has."""

from __future__ import annotations

import torch
from harness.peers import Peers

import hora.torch as hvd

RANKS = (2, 3, 4)


# Rows of ranks 0, 1, ...
def test_rows_that_change_from_call_to_call(peers: Peers) -> None:
    for step in range(30):
        counts = [(step * (rank + 1)) % 5 for rank in range(peers.size)]
        result = hvd.allgather(torch.full((counts[peers.rank], 2), float(peers.rank)), name="changing")
        assert result.tolist() == [
            [float(rank)] * 2 for rank in range(peers.size) for _ in range(counts[rank])
        ]


def test_many_at_once_and_out_of_order(peers: Peers) -> None:
    handles = [hvd.allgather_async(torch.full((peers.rank + n % 3,), n), name=f"g.{n}") for n in range(60)]
    for number, handle in reversed(list(enumerate(handles))):
        rows = sum(rank + number % 3 for rank in range(peers.size))
        assert hvd.synchronize(handle).tolist() == [number] * rows


def test_result_outlives_its_handle_and_is_writable(peers: Peers) -> None:
    result = hvd.allgather(torch.full((3,), float(peers.rank)))
    for _ in range(20):
        hvd.allgather(torch.full((3,), -1.0))
    result += 1
    assert result.tolist() == [rank + 1.0 for rank in range(peers.size) for _ in range(3)]
