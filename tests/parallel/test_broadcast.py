"""Broadcast gives every rank the root's bytes, for each root and dtype, in place or not."""

from __future__ import annotations

import pytest
import torch
from disagreement import assert_works
from harness.peers import Peers

import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3, 4)


def test_nan_and_signed_zero_keep_their_bits(peers: Peers) -> None:
    odd = torch.tensor([float("nan"), -0.0, float("inf"), 1e-45], dtype=torch.float32)
    odd.view(torch.int32)[0] = 0x7FC12345
    result = hvd.broadcast(odd if peers.rank == 0 else torch.zeros(4), 0)
    assert torch.equal(result.view(torch.int32), odd.view(torch.int32))


def test_asynchronous_forms_from_changing_roots(peers: Peers) -> None:
    waiting = []
    for number in range(40):
        mine = torch.full((number + 1,), float(peers.rank))
        start = hvd.broadcast_async_ if number % 2 else hvd.broadcast_async
        waiting.append(start(mine, number % peers.size, name=f"b.{number}"))
    for number, handle in enumerate(waiting):
        assert hvd.synchronize(handle).tolist() == [number % peers.size] * (number + 1)


def test_one_name_with_changing_roots(peers: Peers) -> None:
    for step in range(20):
        assert (
            hvd.broadcast(torch.tensor([peers.rank]), step % peers.size, name="r").item() == step % peers.size
        )


@pytest.mark.parametrize("form", ["state_dict", "named list", "generator", "tensors"])
def test_parameters_of_a_model(form: str, peers: Peers) -> None:
    torch.manual_seed(peers.rank)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Linear(4, 5).double()
    )
    forms = {
        "state_dict": model.state_dict(),
        "named list": list(model.named_parameters()),
        "generator": model.named_parameters(),
        "tensors": [parameter.data for parameter in model.parameters()],
    }
    hvd.broadcast_parameters(forms[form], root_rank=peers.size - 1)
    torch.manual_seed(peers.size - 1)
    same = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Linear(4, 5).double()
    )
    for mine, expected in zip(model.parameters(), same.parameters(), strict=True):
        assert torch.equal(mine, expected)


def test_parameters_of_a_large_model_take_one_broadcast(peers: Peers) -> None:
    params = [(f"layer{number}", torch.full((50 + number,), float(peers.rank))) for number in range(200)]
    for _ in range(2):
        hvd.barrier()
        before = hvd.metrics()["batches"]
        hvd.broadcast_parameters(params, root_rank=1)
        assert hvd.metrics()["batches"] - before == 2  # one gathers the names
        assert all((tensor == 1).all() for _, tensor in params)


def test_parameters_whose_dictionaries_differ_in_order(peers: Peers) -> None:
    named = [(f"p{number}", torch.full((number + 1,), float(peers.rank))) for number in range(8)]
    hvd.broadcast_parameters(dict(named if peers.rank % 2 == 0 else reversed(named)), root_rank=1)
    assert all((tensor == 1).all() for _, tensor in named)


def test_parameters_must_be_known_kinds(peers: Peers) -> None:
    with pytest.raises(ValueError):
        hvd.broadcast_parameters(torch.nn.Linear(2, 2), root_rank=0)
    with pytest.raises(ValueError):
        hvd.broadcast_parameters(5, root_rank=0)
    assert hvd.broadcast(torch.tensor([peers.rank]), 0).item() == 0


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "wrong", [5, [("name", "no tensor")], {"a": torch.ones(3, dtype=torch.complex64)}], ids=str
)
def test_parameters_that_one_rank_refuses(wrong: object, peers: Peers) -> None:
    right = {"a": torch.ones(3), "b": torch.ones(2)}
    with pytest.raises((ValueError, HorovodInternalError)):
        hvd.broadcast_parameters(wrong if peers.rank == 1 else right, root_rank=0)
    assert_works(peers, "afterwards")
    hvd.broadcast_parameters(right, root_rank=0)


@pytest.mark.timeout(20)
def test_parameter_that_only_some_ranks_have(peers: Peers) -> None:
    names = ["a", "b", "extra"] if peers.rank == 1 else ["a", "b"]
    with pytest.raises((ValueError, HorovodInternalError), match="extra"):
        hvd.broadcast_parameters({name: torch.ones(2) for name in names}, root_rank=0)
    assert_works(peers, "afterwards")


def test_broadcast_parameters_with_a_bool_buffer(peers: Peers) -> None:
    model = torch.nn.Linear(2, 2)
    model.register_buffer("mask", torch.tensor([peers.rank == 0, peers.rank != 0]))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    assert model.mask.tolist() == [True, False]
    peers.assert_same_bits(*model.state_dict().values())
