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


def test_a_job_of_some_ranks(peers: Peers) -> None:
    hora.shutdown()
    others = list(range(1, peers.size))
    if peers.rank == 0:
        for wrong, text in (
            (others, "does not list rank 0"),
            ([0, 99], "ranks from 0"),
            ([], "empty"),
            (7, "comm"),
        ):
            with pytest.raises(ValueError, match=text):
                hora.init(comm=wrong)
        assert not hora.is_initialized()
    else:
        hora.init(comm=others[::-1])
        assert (hora.rank(), hora.size()) == (len(others) - peers.rank, len(others))
        assert hora.allgather(numpy.array([peers.rank])).tolist() == others[::-1]
        hora.shutdown()
    peers.wait()
    hora.init()
    assert hora.size() == peers.size


def test_a_job_of_a_communicator(world, peers: Peers) -> None:  # type: ignore[no-untyped-def]
    hora.shutdown()
    backwards = world.Split(0, -peers.rank)
    hora.init(comm=backwards)
    assert (hora.rank(), hora.size()) == (backwards.rank, peers.size)
    assert hora.allgather(numpy.array([peers.rank])).tolist() == list(range(peers.size))[::-1]
    hora.shutdown()
    assert backwards.allreduce(1) == peers.size
    backwards.Free()


def test_process_sets_of_communicators(world, peers: Peers) -> None:  # type: ignore[no-untyped-def]
    hora.shutdown()
    half = world.Split(peers.rank % 2, peers.rank)
    mine = hora.ProcessSet(half)
    assert mine.ranks == [] and mine.mpi_comm is half
    with pytest.raises(NotImplementedError, match="communicator"):
        hora.init(process_sets=[mine])
    hora.init(world, process_sets=[mine])
    members = list(range(peers.rank % 2, peers.size, 2))
    assert mine.ranks == members
    assert hora.allgather(numpy.array([peers.rank]), process_set=mine).tolist() == members
    with pytest.raises(NotImplementedError, match="communicator"):
        hora.add_process_set(hora.ProcessSet(half))
    hora.barrier()
    half.Free()
