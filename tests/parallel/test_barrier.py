"""Barrier lets nobody pass before all have come, and waits for nothing else."""

from __future__ import annotations

import time

import pytest
import torch
from harness.peers import Peers

import hora
import hora.torch as hvd

RANKS = (2, 3, 4)


def test_nobody_passes_before_the_last_comes(peers: Peers) -> None:
    for late in range(peers.size):
        peers.wait()
        if peers.rank == late:
            time.sleep(0.1)
        arrived = time.time()
        (hvd if late % 2 else hora).barrier()
        passed = time.time()
        assert min(peers.exchange(passed)) >= max(peers.exchange(arrived))


def test_passes_while_named_operations_wait(peers: Peers) -> None:
    waiting = None if peers.rank == 0 else hvd.allreduce_async(torch.ones(3), name="later", op=hvd.Sum)
    hvd.barrier()
    if waiting is None:
        waiting = hvd.allreduce_async(torch.ones(3), name="later", op=hvd.Sum)
    assert hvd.synchronize(waiting).tolist() == [peers.size] * 3


def test_many_in_a_row(peers: Peers) -> None:
    for _ in range(200):
        hvd.barrier()


def test_other_process_sets_are_refused(peers: Peers) -> None:
    with pytest.raises((ValueError, TypeError)):
        hvd.barrier(process_set="evens")
    hvd.barrier()
