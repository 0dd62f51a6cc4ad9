"""Hora and mpi4py in one process: both work, mixed, whoever came first; neither ends the other's MPI."""

from __future__ import annotations

import numpy
import pytest
import torch
from harness.peers import Peers

import hora
import hora.torch as hvd

RANKS = (2, 3)
LAUNCH = "with mpi4py"

# The fixtures of this folder initialise Hora before the one below runs, so mpi4py comes second here.
# in which it comes first, or with too low a thread level, are in `tests/e2e/test_mpi.py`.


@pytest.fixture
def world():  # type: ignore[no-untyped-def]
    from mpi4py import MPI

    return MPI.COMM_WORLD


def test_both_see_the_same_world(world, peers: Peers) -> None:  # type: ignore[no-untyped-def]
    assert (world.rank, world.size) == (hora.rank(), hora.size()) == (peers.rank, peers.size)


def test_allreduces_of_both_in_turn(world, peers: Peers) -> None:  # type: ignore[no-untyped-def]
    for step in range(100):
        assert world.allreduce(step) == step * peers.size
        assert hvd.allreduce(torch.tensor([float(step)]), op=hvd.Sum).item() == step * peers.size


def test_allreduce_of_mpi4py_while_ours_is_in_flight(world, peers: Peers) -> None:  # type: ignore[no-untyped-def]
    for step in range(20):
        handles = [
            hvd.allreduce_async(torch.full((5000,), float(n)), name=f"h.{n}", op=hvd.Sum) for n in range(10)
        ]
        total = numpy.empty(10_000)
        world.Allreduce(numpy.full(10_000, float(step)), total)
        assert (total == step * peers.size).all()
        for number, handle in enumerate(handles):
            assert (hvd.synchronize(handle) == number * peers.size).all()


def test_messages_of_both_do_not_meet(world, peers: Peers) -> None:  # type: ignore[no-untyped-def]
    target, source = (peers.rank + 1) % peers.size, (peers.rank - 1) % peers.size
    for tag in range(20):
        handle = hvd.allreduce_async(torch.ones(10), name="m", op=hvd.Sum)
        assert (
            world.sendrecv(f"from {peers.rank}", dest=target, sendtag=tag, source=source) == f"from {source}"
        )
        assert hvd.synchronize(handle).tolist() == [peers.size] * 10


def test_shutdown_leaves_mpi_running(world, peers: Peers) -> None:  # type: ignore[no-untyped-def]
    from mpi4py import MPI

    for _ in range(3):
        hora.shutdown()
        assert not MPI.Is_finalized()
        assert world.allreduce(1) == peers.size
        hora.init()
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == peers.size
