"""Both rules for joined ranks; under Horovod's they count in averages, and most collectives refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from disagreement import assert_works
from front_ends import FrontEnd, combinations
from harness.peers import Peers
from small_models import assert_close, data, linear, sgd

import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3)
Restart = Callable[..., None]


@pytest.fixture
def horovod(restart: Restart) -> None:
    restart(HORA_JOIN_RULE="horovod")


@pytest.fixture(params=["first rank", "last rank"])
def absent(request: pytest.FixtureRequest, peers: Peers) -> int:
    """The rank that joins at once."""
    return 0 if request.param == "first rank" else peers.size - 1


@pytest.mark.parametrize(
    ("front", "dtype"),
    combinations(("float16", "bfloat16", "float32", "float64", "int32", "int64")),
    ids=str,
)
def test_average_divides_by_all_ranks(
    front: FrontEnd, dtype: str, absent: int, horovod: None, peers: Peers
) -> None:
    calls = front.hvd
    values = [6 * rank + 7 for rank in range(peers.size) if rank != absent]
    if peers.rank != absent:
        average = sum(values) // peers.size if dtype.startswith("int") else sum(values) / peers.size
        for op, expected in {
            "Average": average,
            "Sum": sum(values),
            "Min": values[0],
            "Max": values[-1],
        }.items():
            mine, reduction = front.tensor([6 * peers.rank + 7] * 5, dtype), getattr(calls, op)
            for result in (
                calls.allreduce(mine, op=reduction),
                calls.synchronize(calls.allreduce_async(mine, op=reduction, name="named")),
                *calls.grouped_allreduce([mine, mine], op=reduction),
                calls.allreduce_(mine, op=reduction),
            ):
                assert front.array(result).tolist() == pytest.approx([expected] * 5, rel=0.01)
    calls.join()
    assert front.array(calls.allreduce(front.tensor([2], dtype))).tolist() == [2]


def test_averages_from_the_cache(absent: int, horovod: None, peers: Peers) -> None:
    def steps(count: int, expected: float) -> None:
        for _ in range(count):
            handles = [hvd.allreduce_async(torch.ones(4), name=f"steady.{n}") for n in range(20)]
            for handle in handles:
                assert hvd.synchronize(handle).tolist() == pytest.approx([expected] * 4)

    for _ in range(2):
        steps(30, 1)
        if peers.rank != absent:
            steps(10, (peers.size - 1) / peers.size)
        assert hvd.join() in range(peers.size)


def some_splits() -> list[int]:
    return [2, *[0] * (hvd.size() - 1)]


# Each takes a root that has not joined.
REFUSED: dict[str, Callable[[torch.Tensor, int, str | None], Any]] = {
    "allgather": lambda tensor, root, name: hvd.allgather(tensor, name=name),
    "broadcast": lambda tensor, root, name: hvd.broadcast(tensor, root, name=name),
    "broadcast_": lambda tensor, root, name: hvd.broadcast_(tensor, root, name=name),
    "alltoall": lambda tensor, root, name: hvd.alltoall(tensor, some_splits(), name=name),
    "reducescatter": lambda tensor, root, name: hvd.reducescatter(tensor, name=name),
    "grouped_allgather": lambda tensor, root, name: hvd.grouped_allgather([tensor] * 2, name=name),
    "grouped_reducescatter": lambda tensor, root, name: hvd.grouped_reducescatter([tensor] * 2, name=name),
    "sparse_allreduce": lambda tensor, root, name: hvd.sparse_allreduce_async(tensor.to_sparse(), name)(),
    "broadcast_object": lambda tensor, root, name: hvd.broadcast_object("text", root, name=name),
    "allgather_object": lambda tensor, root, name: hvd.allgather_object("text", name=name),
    "broadcast_parameters": lambda tensor, root, name: hvd.broadcast_parameters([("p", tensor)], root),
    "broadcast_optimizer_state": lambda tensor, root, name: hvd.broadcast_optimizer_state(
        sgd(linear(1)), root
    ),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", ["named", None])
@pytest.mark.parametrize("call", REFUSED)
def test_others_are_refused_on_all_ranks(
    call: str, name: str | None, absent: int, horovod: None, peers: Peers
) -> None:
    text, root = "", peers.size - 1 - absent
    if peers.rank != absent:
        for _ in range(2):
            mine = torch.full((2,), float(peers.rank))
            with pytest.raises(HorovodInternalError, match=f"ranks {absent} have joined") as caught:
                REFUSED[call](mine, root, name)
            text = str(caught.value)
            assert mine.tolist() == [peers.rank] * 2
            for again in (name, None):
                result = hvd.allreduce(torch.ones(2), name=again)
                assert result.tolist() == pytest.approx([(peers.size - 1) / peers.size] * 2)
            hvd.barrier()
    hvd.join()
    texts = peers.exchange(text)
    assert len(set(texts)) == 2, texts
    REFUSED[call](torch.ones(2), root, name)
    assert_works(peers, "named")


def test_changes_of_process_sets_are_refused(horovod: None, peers: Peers) -> None:
    if peers.rank > 0:
        with pytest.raises(HorovodInternalError, match="only while all ranks take part"):
            hvd.add_process_set([0])
    hvd.join()
    hvd.remove_process_set(hvd.add_process_set([0]))


def test_sets_whose_members_all_take_part_go_on(horovod: None, peers: Peers) -> None:
    others = hvd.add_process_set(range(1, peers.size))
    if peers.rank > 0:
        ranks = list(range(1, peers.size))
        assert hvd.allgather(torch.tensor([peers.rank]), process_set=others).tolist() == ranks
        assert hvd.allreduce(torch.ones(2), process_set=others).tolist() == [1, 1]
        assert hvd.broadcast(torch.tensor(peers.rank), 1, process_set=others).item() == 1
    hvd.join()
    hvd.remove_process_set(others)


def test_a_rule_that_differs_between_ranks_is_refused_on_all(restart: Restart, peers: Peers) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)differ.*HORA_JOIN_RULE +contributors +0\n.*horovod"):
        restart(HORA_JOIN_RULE="contributors" if peers.rank == 0 else "horovod")
    assert not hvd.is_initialized()


@pytest.mark.parametrize("rule", ["contributors", "horovod"])
def test_optimizer_with_uneven_batches(rule: str, restart: Restart, peers: Peers) -> None:
    restart(HORA_JOIN_RULE=rule)
    batches = [2, 4, 5][: peers.size]
    model, expected = linear(1), linear(1)
    optimizer, inner = hvd.DistributedOptimizer(sgd(model, momentum=0.9)), sgd(expected, momentum=0.9)
    for step in range(batches[peers.rank]):
        optimizer.zero_grad()
        model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
    last = hvd.join()
    hvd.broadcast_parameters(model.state_dict(), last)
    hvd.broadcast_optimizer_state(optimizer, last)
    for step in range(max(batches)):
        active = [rank for rank in range(peers.size) if step < batches[rank]]
        inner.zero_grad()
        losses = [expected(data(step, rank)).square().mean() for rank in active]
        (sum(losses) / (peers.size if rule == "horovod" else len(active))).backward()
        inner.step()
    peers.assert_same_bits(*model.parameters(), optimizer.state[model.weight]["momentum_buffer"])
    assert_close(model, expected)
