"""Ranks and sizes, also for made-up hosts and without the launcher's own variables."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy
import pytest
from front_ends import FRONT_ENDS, FrontEnd
from harness.peers import Peers

import hora

RANKS = (2, 3, 4)
Restart = Callable[..., None]

WORLD = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")


def facts() -> dict[str, int]:
    return {name: getattr(hora, name)() for name in WORLD}


def expected_facts(split: list[int], rank: int) -> dict[str, int]:
    """Return the world as rank `rank` must see it when the hosts have `split` ranks each."""
    first = [sum(split[:host]) for host in range(len(split))]
    host = max(index for index, start in enumerate(first) if start <= rank)
    local_rank = rank - first[host]
    across = [index for index, count in enumerate(split) if count > local_rank]
    return {
        "rank": rank,
        "size": sum(split),
        "local_rank": local_rank,
        "local_size": split[host],
        "cross_rank": across.index(host),
        "cross_size": len(across),
    }


def splits(size: int) -> list[list[int]]:
    """Return all ways to write `size` as a sum of ranks per host."""
    return [[]] if size == 0 else [[n, *rest] for n in range(1, size + 1) for rest in splits(size - n)]


def test_ranks_are_those_of_the_launcher(peers: Peers) -> None:
    assert facts() == expected_facts([peers.size], peers.rank)
    assert hora.is_homogeneous() is True
    assert sorted(peers.exchange(hora.local_rank())) == list(range(peers.size))


@pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
def test_front_ends_share_one_world(front: FrontEnd, peers: Peers) -> None:
    for name in WORLD:
        assert getattr(front.hvd, name)() == getattr(hora, name)()
    front.hvd.shutdown()
    assert not hora.is_initialized()
    hora.init()
    assert front.hvd.is_initialized()


def test_local_ranks_without_the_variables_of_the_launcher(restart: Restart, peers: Peers) -> None:
    for name in [name for name in os.environ if "LOCAL" in name or "NODE_RANK" in name]:
        del os.environ[name]
    restart()
    assert facts() == expected_facts([peers.size], peers.rank)
    assert sorted(peers.exchange(hora.local_rank())) == list(range(peers.size))


def test_ranks_without_any_variable_of_the_launcher(restart: Restart, peers: Peers) -> None:
    for name in [name for name in os.environ if name.startswith(("OMPI_COMM_WORLD", "PMI_"))]:
        del os.environ[name]
    restart()
    assert facts() == expected_facts([peers.size], peers.rank)


def test_wrong_local_variables_change_nothing(restart: Restart, peers: Peers) -> None:
    restart(OMPI_COMM_WORLD_LOCAL_RANK=0, OMPI_COMM_WORLD_LOCAL_SIZE=1)
    assert sorted(peers.exchange(hora.local_rank())) == list(range(peers.size))


def test_every_split_into_hosts(restart: Restart, peers: Peers) -> None:
    for split in splits(peers.size):
        restart(HORA_HOST_SPLIT=",".join(map(str, split)))
        assert facts() == expected_facts(split, peers.rank)
        assert hora.is_homogeneous() is (len(set(split)) == 1)
        result = hora.allreduce(numpy.array([peers.rank + 1.0]), op=hora.Sum)
        assert result == [peers.size * (peers.size + 1) / 2]
        assert hora.allgather(numpy.array([peers.rank])).tolist() == list(range(peers.size))
        assert hora.broadcast(numpy.array([peers.rank]), peers.size - 1) == [peers.size - 1]


@pytest.mark.parametrize("extra", ["more", "fewer"])
def test_split_whose_sum_is_not_the_size(extra: str, restart: Restart, peers: Peers) -> None:
    split = str(peers.size + 1 if extra == "more" else peers.size - 1)
    with pytest.raises(ValueError, match=rf"(?s)HORA_HOST_SPLIT.*{peers.size}"):
        restart(HORA_HOST_SPLIT=split)
    assert not hora.is_initialized()


def test_initialising_twice_is_harmless(peers: Peers) -> None:
    hora.init()
    hora.init()
    assert hora.allreduce(numpy.ones(2), op=hora.Sum).tolist() == [peers.size] * 2


@pytest.mark.parametrize("argument", [{"comm": "world"}, {"process_sets": "static"}], ids=str)
def test_arguments_that_are_not_known_are_refused(argument: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(argument))):
        hora.init(**argument)
