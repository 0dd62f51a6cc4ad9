"""Objects travel whole; None is enough off the root; what cannot be pickled is an error on all ranks."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from disagreement import assert_works
from harness.peers import Peers

import hora
import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3)

OBJECTS: dict[str, Any] = {
    "none": None,
    "number": 3.5,
    "empty": "",
    "text": "größe",
    "nested": {"a": [1, (2, 3)], "b": {"c": None}},
    "large": list(range(200_000)),
    "bytes": bytes(300_000),
    "ordered": collections.OrderedDict(z=1, a=2),
}


@pytest.mark.parametrize("value", OBJECTS)
@pytest.mark.parametrize("module", [hora, hvd], ids=["hora", "torch"])
def test_broadcast_from_every_root(module: Any, value: str, peers: Peers) -> None:
    for root in range(peers.size):
        mine = OBJECTS[value] if peers.rank == root else None
        result = module.broadcast_object(mine, root_rank=root)
        assert result == OBJECTS[value]
        assert type(result) is type(OBJECTS[value])


@pytest.mark.parametrize("module", [hora, hvd], ids=["hora", "torch"])
def test_arrays_and_tensors_unknown_elsewhere(module: Any, peers: Peers) -> None:
    state = (
        {"array": numpy.arange(12.0).reshape(3, 4), "tensor": torch.arange(5)} if peers.rank == 0 else None
    )
    result = module.broadcast_object(state, root_rank=0, name="state")
    numpy.testing.assert_array_equal(result["array"], numpy.arange(12.0).reshape(3, 4))
    assert torch.equal(result["tensor"], torch.arange(5))


@pytest.mark.parametrize("module", [hora, hvd], ids=["hora", "torch"])
def test_allgather_in_rank_order(module: Any, peers: Peers) -> None:
    values = [None, {"rank": 1, "data": [0] * 5000}, "three", 4][: peers.size]
    assert module.allgather_object(values[peers.rank]) == values
    assert module.allgather_object(peers.rank, name="numbered") == list(range(peers.size))


def test_functions_travel(peers: Peers) -> None:
    factor = 7
    double = hvd.broadcast_object((lambda value: value * factor) if peers.rank == 0 else None)
    assert double(3) == 21


@pytest.mark.parametrize(
    "unpicklable", [threading.Lock(), (value for value in "x")], ids=["lock", "generator"]
)
def test_unpicklable_object_raises_on_all_ranks(unpicklable: Any, peers: Peers) -> None:
    for root in range(peers.size):
        with pytest.raises(ValueError, match=f"rank {root} cannot pickle"):
            hvd.broadcast_object(unpicklable if peers.rank == root else None, root_rank=root)
        assert_works(peers, "after.broadcast")
        with pytest.raises(ValueError, match=f"rank {root} cannot pickle"):
            hvd.allgather_object(unpicklable if peers.rank == root else "fine")
        assert_works(peers, "after.allgather")
    assert hvd.broadcast_object(peers.rank) == 0


class Refuses:
    """Fails where it is rebuilt."""

    def __reduce__(self) -> Any:
        return _fail, ()


def _fail() -> None:
    raise RuntimeError("cannot be rebuilt here")


def test_object_that_cannot_be_rebuilt(peers: Peers) -> None:
    try:
        hvd.broadcast_object(Refuses() if peers.rank == 0 else None)
    except RuntimeError as error:
        assert "rebuilt" in str(error)
    assert_works(peers, "rebuilt")


def test_roots_that_differ(peers: Peers) -> None:
    with pytest.raises(HorovodInternalError):
        hvd.broadcast_object("mine", root_rank=0 if peers.rank == 0 else 1)
    assert_works(peers, "roots")
    assert hvd.broadcast_object(peers.rank, root_rank=1) == 1


def test_wrong_root(peers: Peers) -> None:
    with pytest.raises((ValueError, TypeError)):
        hvd.broadcast_object("mine", root_rank=peers.size)
    assert_works(peers, "root")


@pytest.mark.parametrize("name", ["x", "broadcast_object", "allgather_object", "dict"])
def test_names_of_inner_steps_meet_no_tensor(name: str, peers: Peers) -> None:
    handle = hvd.allreduce_async(torch.ones(3), name=name, op=hvd.Sum)
    others = [hvd.allreduce_async(torch.ones(3), name=f"{name}.{part}") for part in ("indices", "values")]
    sparse = hvd.sparse_allreduce_async(torch.eye(3).to_sparse(), name)()
    assert torch.equal(sparse.to_dense(), torch.eye(3))
    assert [hvd.synchronize(other).tolist() for other in others] == [[1] * 3] * 2
    assert hvd.broadcast_object({"a": 1}, name=name) == {"a": 1}
    assert hvd.allgather_object({"a": 1}, name=name) == [{"a": 1}] * peers.size
    assert hvd.synchronize(handle).tolist() == [peers.size] * 3


def tensors() -> dict[str, torch.Tensor]:
    return {"a": torch.ones(3), "b": torch.ones(2)}


def adam() -> torch.optim.Optimizer:
    return torch.optim.Adam(torch.nn.Linear(2, 2).parameters())


# Functions of several inner steps, each with a right call.
HELPERS: dict[str, Callable[[], Any]] = {
    "allgather_object": lambda: hvd.allgather_object("a"),
    "broadcast_object": lambda: hvd.broadcast_object("b"),
    "broadcast_parameters": lambda: hvd.broadcast_parameters(tensors(), 0),
    "broadcast_optimizer_state": lambda: hvd.broadcast_optimizer_state(adam(), 0),
    "sparse_allreduce": lambda: hvd.sparse_allreduce_async(torch.eye(3).to_sparse())(),
    "check_consistency": lambda: hvd.check_consistency(torch.nn.Linear(0, 0)),
}


@pytest.mark.timeout(40)
@pytest.mark.parametrize(
    "pair",
    [
        ("allgather_object", "broadcast_object"),
        ("broadcast_parameters", "allgather_object"),
        ("broadcast_optimizer_state", "broadcast_parameters"),
        ("broadcast_object", "broadcast_optimizer_state"),
        ("sparse_allreduce", "broadcast_object"),
        ("sparse_allreduce", "broadcast_parameters"),
    ],
    ids=" ".join,
)
def test_ranks_in_different_helpers(pair: tuple[str, str], peers: Peers) -> None:
    """An error or a wait that `shutdown` ends, never a crash, and nothing mistaken for something else."""
    outcome: list[object] = []

    def exchange() -> None:
        try:
            outcome.append(HELPERS[pair[peers.rank > 0]]())
            outcome.append(hvd.allgather_object("c"))
        except HorovodInternalError as error:
            outcome.append(error)

    thread = threading.Thread(target=exchange)
    thread.start()
    thread.join(1)
    peers.wait()
    hora.shutdown()
    thread.join(10)
    assert not thread.is_alive()
    assert isinstance(outcome[-1], HorovodInternalError), outcome
    hora.init()
    assert_works(peers, "again")


def test_helpers_at_once_in_another_order_on_each_rank(peers: Peers) -> None:
    """Those whose steps have names; steps without a name pair by their order."""
    named: dict[str, Callable[[], Any]] = {
        "allgather_object": lambda: hvd.allgather_object(peers.rank, name="x"),
        "broadcast_object": lambda: hvd.broadcast_object(peers.rank, 1, name="x"),
        "sparse_allreduce": lambda: hvd.sparse_allreduce_async(torch.eye(3).to_sparse(), "x")().sum().item(),
        "broadcast_parameters": HELPERS["broadcast_parameters"],
        "broadcast_optimizer_state": HELPERS["broadcast_optimizer_state"],
        "allreduce": lambda: hvd.allreduce(torch.ones(1), name="x", op=hvd.Sum).item(),
    }
    results: dict[str, Any] = {}
    for turn in range(5):
        results.clear()
        threads = [
            threading.Thread(target=lambda helper=helper: results.update({helper: named[helper]()}))
            for helper in (reversed(named) if (peers.rank + turn) % 2 else named)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {
            "allgather_object": list(range(peers.size)),
            "broadcast_object": 1,
            "sparse_allreduce": 3,
            "broadcast_parameters": None,
            "broadcast_optimizer_state": None,
            "allreduce": peers.size,
        }
