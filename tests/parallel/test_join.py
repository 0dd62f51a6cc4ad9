"""Ranks that run out of data join; the others go on and reduce what they contribute themselves."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from disagreement import assert_works, table_of
from harness.peers import Peers
from small_models import assert_close, linear

import hora
import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3)


def test_returns_the_last_rank(peers: Peers) -> None:
    for last in [*range(peers.size), 0, 0]:
        peers.wait()
        if peers.rank == last:
            time.sleep(0.1)
        assert hvd.join() == last


def test_uneven_batches_keep_weights_equal(peers: Peers) -> None:
    batches = [2, 4, 5][: peers.size]
    weight = torch.zeros(3)
    for step in range(batches[peers.rank]):
        weight -= hvd.allreduce(torch.full((3,), float(step + peers.rank)), name="gradient")
    last = hvd.join()
    assert 0 <= last < peers.size
    weight = hvd.broadcast(weight, last)
    expected = 0.0
    for step in range(max(batches)):
        active = [rank for rank in range(peers.size) if step < batches[rank]]
        expected -= sum(step + rank for rank in active) / len(active)
    assert weight.tolist() == pytest.approx([expected] * 3)
    peers.assert_same_bits(weight)


def test_a_rank_that_joins_before_it_did_anything(restart: Any, peers: Peers) -> None:
    restart()
    if peers.rank > 0:
        handles = [hvd.allreduce_async(torch.ones(n), name=f"{n}", op=hvd.Sum) for n in range(30)]
        assert [hvd.synchronize(handle).sum() for handle in handles] == [
            n * (peers.size - 1) for n in range(30)
        ]
    hvd.join()
    assert_works(peers, "1")


def test_after_long_steady_runs(peers: Peers) -> None:
    def steps(count: int, ranks: int) -> None:
        for _ in range(count):
            handles = [hvd.allreduce_async(torch.ones(4), name=f"steady.{n}", op=hvd.Sum) for n in range(20)]
            for handle in handles:
                assert hvd.synchronize(handle).tolist() == [ranks] * 4

    for joins_first in (0, peers.size - 1, 0):
        steps(50, peers.size)
        if peers.rank != joins_first:
            steps(10, peers.size - 1)
        hvd.join()


def test_objects_of_the_others(peers: Peers) -> None:
    if peers.rank > 0:
        others = list(range(1, peers.size))
        assert hvd.allgather_object(peers.rank) == others
        assert hvd.broadcast_object(peers.rank, 1) == 1
    hvd.join()
    assert_works(peers, "afterwards")


def test_parameters_and_optimizer_state_of_the_others(peers: Peers) -> None:
    model = linear(peers.rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (peers.rank + 1))
    if peers.rank > 0:
        hvd.broadcast_parameters(model.state_dict(), root_rank=1)
        hvd.broadcast_optimizer_state(optimizer, root_rank=1)
        hvd.check_consistency(model, optimizer)
        assert_close(model, linear(1))
        assert optimizer.param_groups[0]["lr"] == 0.2
        if peers.rank == 2:
            model.bias.data += 1
        if peers.size > 2:
            with pytest.raises(HorovodInternalError, match=r"bias differs: ranks \[2\] .* than rank 1"):
                hvd.check_consistency(model)
            names = {f"p{peers.rank}": torch.ones(1)}
            with pytest.raises(ValueError, match=r"'p1' \(only on ranks \[1\]\)"):
                hvd.broadcast_parameters(names, root_rank=1)
            parameters = list(model.parameters())[: peers.rank]
            with pytest.raises(ValueError, match=r"rank 2 has parameter groups of \[2\] .*, rank 1 of \[1\]"):
                hvd.broadcast_optimizer_state(torch.optim.Adam(parameters), root_rank=1)
    hvd.join()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    peers.assert_same_bits(*model.parameters())


def test_broadcast_of_a_root_that_has_joined_fails(peers: Peers) -> None:
    if peers.rank > 0:
        peers.wait()
        time.sleep(0.1)
        with pytest.raises(HorovodInternalError, match="root_rank 0 has joined"):
            hvd.broadcast(torch.ones(2), 0, name="from 0")
        assert hvd.allreduce(torch.ones(2), name="from 0", op=hvd.Sum).tolist() == [peers.size - 1] * 2
    else:
        peers.wait()
    hvd.join()
    assert_works(peers, "from 0")


def test_differences_name_only_ranks_that_contribute(peers: Peers) -> None:
    if peers.rank > 0:
        mine = torch.ones(1 + peers.rank)
        if peers.size > 2:
            with pytest.raises(HorovodInternalError) as caught:
                hvd.allreduce(mine, name="differs")
            assert {ranks: row["shape"] for ranks, row in table_of(str(caught.value)).items()} == {
                str(rank): f"[{1 + rank}]" for rank in range(1, peers.size)
            }
        else:
            assert hvd.allreduce(mine, name="differs").tolist() == [1, 1]
    hvd.join()
    assert_works(peers, "differs")


def test_collectives_of_a_set_wait_for_all_its_members(peers: Peers) -> None:
    pair = hvd.add_process_set([0, 1]) if peers.size > 2 else hvd.global_process_set
    if pair.included() and peers.size > 2:
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=pair).tolist() == [2]
    hora.join()
    if peers.size > 2:
        hvd.remove_process_set(pair)


def test_operations_in_flight_complete_after_the_own_join(peers: Peers) -> None:
    handle = hvd.allreduce_async(torch.ones(2), name="before", op=hvd.Sum)
    hvd.join()
    assert hvd.synchronize(handle).tolist() == [peers.size] * 2
