"""Collectives of some ranks only: at the same time as others, in any order, under the same names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch
from disagreement import assert_works, ranks_text, table_of
from harness.peers import Peers

import hora
import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3, 4)


@pytest.fixture
def sets(peers: Peers) -> Iterator[dict[str, hvd.ProcessSet]]:
    """Sets that overlap and sets that do not; they are equal in part where there are few ranks."""
    last = peers.size - 1
    ranks = {"even": range(0, peers.size, 2), "odd": range(1, peers.size, 2)}
    if peers.size > 2:
        ranks |= {"low": range(last), "high": range(1, peers.size)}
    added: dict[str, hvd.ProcessSet] = {}
    for name, members in ranks.items():
        if list(members) not in [each.ranks for each in added.values()]:
            added[name] = hvd.add_process_set(hvd.ProcessSet(members))
    yield added
    for each in added.values():
        assert hvd.remove_process_set(each)
        assert each.process_set_id is None


def own(sets: dict[str, hvd.ProcessSet]) -> list[hvd.ProcessSet]:
    return [each for each in sets.values() if each.included()]


def test_numbers_of_ranks(sets: dict[str, hvd.ProcessSet], peers: Peers) -> None:
    for each in sets.values():
        assert each.size() == len(each.ranks)
        peers.assert_same([each.process_set_id, each.ranks])
        if each.included():
            assert each.ranks[each.rank()] == peers.rank
        else:
            with pytest.raises(ValueError, match="not a member"):
                each.rank()
    assert hvd.global_process_set.ranks == list(range(peers.size))
    assert (hvd.global_process_set.size(), hvd.global_process_set.rank()) == (peers.size, peers.rank)


def test_objects(sets: dict[str, hvd.ProcessSet], peers: Peers) -> None:
    for each in own(sets):
        assert hvd.allgather_object(peers.rank, process_set=each) == each.ranks
        assert hvd.broadcast_object(peers.rank, each.ranks[-1], process_set=each) == each.ranks[-1]


def test_disjoint_sets_and_the_global_one_at_once(sets: dict[str, hvd.ProcessSet], peers: Peers) -> None:
    half = sets["even" if peers.rank % 2 == 0 else "odd"]
    for step in range(50):
        mine = torch.full((3,), float(peers.rank + step))
        handles = [
            hvd.allreduce_async(mine, name="same", op=hvd.Sum, process_set=process_set)
            for process_set in (half, hvd.global_process_set)
        ]
        for handle, ranks in zip(handles, (half.ranks, range(peers.size)), strict=True):
            assert hvd.synchronize(handle).tolist() == [sum(rank + step for rank in ranks)] * 3


@pytest.mark.parametrize("named", [True, False])
def test_overlapping_sets_in_another_order_on_each_rank(
    named: bool, sets: dict[str, hvd.ProcessSet], peers: Peers
) -> None:
    for turn in range(100):
        members = own(sets)
        order = members[turn % len(members) :] + members[: turn % len(members)]
        if (peers.rank + turn) % 2:
            order.reverse()
        value = torch.full((5,), float(peers.rank))
        options: dict[str, Any] = {"name": "overlap"} if named else {}
        handles = {
            each.process_set_id: hvd.allreduce_async(value, op=hvd.Sum, process_set=each, **options)
            for each in order
        }
        for each in members:
            assert hvd.synchronize(handles[each.process_set_id]).tolist() == [sum(each.ranks)] * 5


def test_blocking_calls_in_different_sets_do_not_wait_for_others(
    sets: dict[str, hvd.ProcessSet], peers: Peers
) -> None:
    if peers.rank % 2 == 0:
        for _ in range(20):
            hvd.allreduce(torch.ones(3), process_set=sets["even"])
    peers.wait()
    if peers.rank % 2:
        hvd.allreduce(torch.ones(3), process_set=sets["odd"])


def test_who_is_no_member_is_refused_and_disturbs_nobody(
    sets: dict[str, hvd.ProcessSet], peers: Peers
) -> None:
    calls = (
        lambda each: hvd.allreduce(torch.ones(2), name="x", process_set=each),
        lambda each: hvd.allgather(torch.ones(2, dtype=torch.complex64), name="x", process_set=each),
        lambda each: hvd.broadcast(torch.ones(2), each.ranks[0], process_set=each),
        lambda each: hvd.alltoall(torch.ones(each.size()), process_set=each),
        lambda each: hvd.reducescatter(torch.ones(2), process_set=each),
        lambda each: hvd.grouped_allreduce([torch.ones(2)], process_set=each),
        lambda each: hvd.barrier(process_set=each),
    )
    for each in sets.values():
        if not each.included():
            for call in calls:
                with pytest.raises(ValueError):
                    call(each)
    for each in own(sets):
        for options in ({"name": "x"}, {}):
            result = hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=each, **options)
            assert result.tolist() == [each.size()] * 2
    assert_works(peers, "x")


def test_differences_in_a_set_name_global_ranks(sets: dict[str, hvd.ProcessSet], peers: Peers) -> None:
    each = sets.get("high", sets["odd"])
    if each.included() and each.size() > 1:
        mine = torch.ones(2 if peers.rank == each.ranks[-1] else 3)
        with pytest.raises(HorovodInternalError, match="'differs': ranks differ in shape") as caught:
            hvd.allreduce(mine, name="differs", process_set=each)
        table = table_of(str(caught.value))
        assert {ranks: row["shape"] for ranks, row in table.items()} == {
            str(each.ranks[-1]): "[2]",
            ranks_text(each.ranks[:-1]): "[3]",
        }
        with pytest.raises(ValueError if peers.rank == each.ranks[0] else HorovodInternalError):
            hvd.allreduce(mine, op=17 if peers.rank == each.ranks[0] else hvd.Sum, process_set=each)
        with pytest.raises(ValueError, match="root_rank 0"):
            hvd.broadcast(mine, 0, process_set=each)
    assert_works(peers, "differs")


def test_duplicates_are_refused(sets: dict[str, hvd.ProcessSet], peers: Peers) -> None:
    for ranks in (sets["even"].ranks, list(reversed(sets["even"].ranks)), range(peers.size)):
        for duplicate in (ranks, hvd.ProcessSet(ranks)):
            with pytest.raises(ValueError, match="already"):
                hvd.add_process_set(duplicate)
    with pytest.raises(ValueError, match="each rank once"):
        hvd.ProcessSet([0, 1, 1])
    assert_works(peers, "afterwards")


@pytest.mark.parametrize("ranks", [[], [99], [-1]], ids=str)
def test_ranks_that_do_not_exist(ranks: list[int], peers: Peers) -> None:
    with pytest.raises(ValueError, match="rank"):
        hvd.add_process_set(ranks)
    assert_works(peers, "afterwards")


def test_sets_that_differ_between_ranks(peers: Peers) -> None:
    with pytest.raises(HorovodInternalError, match="add_process_set"):
        hvd.add_process_set([peers.rank])
    assert_works(peers, "afterwards")


def test_sets_are_unusable_before_and_after(peers: Peers) -> None:
    first = hvd.ProcessSet([0])
    assert (first.process_set_id, first.size(), first.rank()) == (None, None, None)
    with pytest.raises(ValueError, match="add_process_set"):
        hvd.allreduce(torch.ones(1), process_set=first)
    assert not hvd.remove_process_set(first)
    assert not hvd.remove_process_set(hvd.global_process_set)
    for _ in range(3):
        assert hvd.add_process_set(first) is first
        if first.included():
            assert hvd.allreduce(torch.ones(1), process_set=first).tolist() == [1]
        assert hvd.remove_process_set(first)
    with pytest.raises(ValueError, match="add_process_set"):
        hvd.allreduce(torch.ones(1), process_set=first)
    assert_works(peers, "afterwards")


def test_removal_fails_what_is_in_flight(peers: Peers) -> None:
    if peers.size == 2:
        return  # a smaller set than the global one has one member, who waits for nobody
    others = hvd.add_process_set(range(2))
    if peers.rank == 0:
        handle = hvd.allreduce_async(torch.ones(2), name="orphan", process_set=others)
    hvd.remove_process_set(others)
    if peers.rank == 0:
        with pytest.raises(HorovodInternalError, match="removed"):
            hvd.synchronize(handle)
    assert_works(peers, "orphan")


def test_init_adds_sets(restart: Any, peers: Peers) -> None:
    sets = [hvd.ProcessSet([0]), hvd.ProcessSet([peers.size - 1])]
    for _ in range(2):
        hvd.shutdown()
        assert [each.process_set_id for each in sets] == [None, None]
        hvd.init(process_sets=sets)
        peers.assert_same([each.process_set_id for each in sets])
        assert None not in [each.process_set_id for each in sets]
        hvd.init(process_sets=sets)
        for each in own({"first": sets[0], "last": sets[1]}):
            assert hora.allreduce(numpy.ones(1), process_set=each).tolist() == [1]
        peers.wait()
    hvd.shutdown()
    hvd.init(process_sets=(each for each in sets))
    assert None not in [each.process_set_id for each in sets]
    hvd.shutdown()
    with pytest.raises(ValueError, match="more than once"):
        hvd.init(process_sets=[[0], hvd.ProcessSet([0])])
    with pytest.raises(ValueError, match="99"):
        hvd.init(process_sets=[[99]])
    assert not hvd.is_initialized()
    hvd.init(process_sets="dynamic")
    assert_works(peers, "afterwards")
