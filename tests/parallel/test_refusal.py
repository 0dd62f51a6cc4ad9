"""A call that one rank refuses raises there with its own type, and reaches the other ranks as an error."""

from __future__ import annotations

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
Call = Callable[..., Any]

# What one rank does wrong, and what its peers do at the same time.
CASES: dict[str, tuple[Call, Call]] = {
    "complex allreduce_": (
        lambda **name: hvd.allreduce_(torch.ones(3, dtype=torch.complex128), **name),
        lambda **name: hvd.allreduce_(torch.ones(3), **name),
    ),
    "complex allgather": (
        lambda **name: hvd.allgather(torch.ones(3, dtype=torch.complex64), **name),
        lambda **name: hvd.allgather(torch.ones(3), **name),
    ),
    "complex broadcast": (
        lambda **name: hvd.broadcast(torch.ones(3, dtype=torch.complex64), 0, **name),
        lambda **name: hvd.broadcast(torch.ones(3), 0, **name),
    ),
    "a list": (
        lambda **name: hvd.allreduce([1.0, 2.0], **name),
        lambda **name: hvd.allreduce(torch.ones(2), **name),
    ),
    "an array for the torch front end": (
        lambda **name: hvd.allreduce(numpy.ones(2), **name),
        lambda **name: hvd.allreduce(torch.ones(2), **name),
    ),
    "a tensor for the numpy front end": (
        lambda **name: hora.broadcast("text", 0, **name),
        lambda **name: hora.broadcast(numpy.ones(2), 0, **name),
    ),
    "an array of objects": (
        lambda **name: hora.allgather(numpy.array([None, {}]), **name),
        lambda **name: hora.allgather(numpy.ones(2), **name),
    ),
    "a sparse tensor": (
        lambda **name: hvd.allreduce_(torch.ones(3).to_sparse(), **name),
        lambda **name: hvd.allreduce_(torch.ones(3), **name),
    ),
    "a meta tensor": (
        lambda **name: hvd.allreduce(torch.ones(3, device="meta"), **name),
        lambda **name: hvd.allreduce(torch.ones(3), **name),
    ),
    "an in-place call on a read-only array": (
        lambda **name: hora.allreduce_(numpy.broadcast_to(numpy.ones(1), (3,)), **name),
        lambda **name: hora.allreduce_(numpy.ones(3), **name),
    ),
}


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("case", CASES)
def test_one_sided_refusal_reaches_the_peers(case: str, named: bool, peers: Peers) -> None:
    wrong, right = CASES[case]
    for erring in range(peers.size):
        options = {"name": "refused"} if named else {}
        if peers.rank == erring:
            with pytest.raises((ValueError, TypeError)):
                wrong(**options)
        else:
            with pytest.raises(HorovodInternalError, match=rf"rank {erring} refused") as caught:
                right(**options)
            assert not named or "'refused'" in str(caught.value)
        assert_works(peers, "refused")


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("case", CASES)
def test_refusal_on_all_ranks(case: str, named: bool, peers: Peers) -> None:
    with pytest.raises((ValueError, TypeError)):
        CASES[case][0](**({"name": "refused"} if named else {}))
    assert_works(peers, "refused")


@pytest.mark.parametrize(
    "argument", [{"name": 5}, {"prescale_factor": "two"}, {"postscale_factor": None}, {"op": "Sum"}]
)
def test_wrong_types_of_arguments(argument: dict[str, Any], peers: Peers) -> None:
    with pytest.raises((ValueError, TypeError)):
        hvd.allreduce(torch.ones(3), **argument)
    assert_works(peers, "typed")


@pytest.mark.parametrize("handle", [None, 5, "x", object()])
def test_wrong_handles(handle: object) -> None:
    for function in (hvd.synchronize, hvd.poll, hora.synchronize, hora.poll):
        with pytest.raises((ValueError, TypeError)):
            function(handle)


def test_peer_already_waits_when_the_call_is_refused(peers: Peers) -> None:
    if peers.rank == 0:
        peers.wait()
        with pytest.raises(ValueError):
            hvd.allreduce(torch.ones(3, dtype=torch.complex64), name="w")
    else:
        handle = hvd.allreduce_async(torch.ones(3), name="w")
        peers.wait()
        with pytest.raises(HorovodInternalError, match="rank 0 refused"):
            hvd.synchronize(handle)
    assert_works(peers, "w")


def test_numbering_of_unnamed_calls_stays_in_step(peers: Peers) -> None:
    for step in range(20):
        erring = step % peers.size
        with pytest.raises((ValueError, HorovodInternalError)):
            hvd.allreduce(torch.ones(3, dtype=torch.complex64 if peers.rank == erring else torch.float32))
        assert hvd.allreduce(torch.full((2,), float(step)), op=hvd.Sum).tolist() == [step * peers.size] * 2
