"""Compressors that users write work in every call that takes one, and their errors reach all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from disagreement import assert_works
from harness.peers import Peers
from small_models import assert_close, data, linear, reductions, sgd

import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3)


class Steps:
    """Sends whole numbers of steps; an object with a state of its own."""

    def __init__(self, step: float) -> None:
        self._step = step
        self.compressed = 0

    def compress(self, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        self.compressed += 1
        return (tensor.detach() / self._step).round().to(torch.int32), tensor.dtype

    def decompress(self, tensor: torch.Tensor, ctx: torch.dtype) -> torch.Tensor:
        return tensor.to(ctx) * self._step


class FirstHalf:
    """Sends the first half of the elements, so another shape; a class that is never made an object."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Size]:
        return tensor.detach().flatten()[: tensor.numel() // 2].clone(), tensor.shape

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.Size) -> torch.Tensor:
        result = torch.zeros(ctx.numel(), dtype=tensor.dtype)
        result[: len(tensor)] = tensor
        return result.view(ctx)


CALLS: dict[str, Callable[..., list[torch.Tensor]]] = {
    "allreduce": lambda tensor, **options: [hvd.allreduce(tensor, op=hvd.Sum, **options)],
    "grouped_allreduce": lambda tensor, **options: hvd.grouped_allreduce(
        [tensor, tensor], op=hvd.Sum, **options
    ),
    "reducescatter": lambda tensor, **options: [hvd.reducescatter(tensor, op=hvd.Sum, **options)],
    "grouped_reducescatter": lambda tensor, **options: hvd.grouped_reducescatter(
        [tensor, tensor], op=hvd.Sum, **options
    ),
}


@pytest.mark.parametrize("name", ["named", None])
@pytest.mark.parametrize("call", CALLS)
def test_every_call(call: str, name: str | None, peers: Peers) -> None:
    mine = torch.full((2 * peers.size, 3), 0.3 + peers.rank)
    for result in CALLS[call](mine, name=name, compression=Steps(0.25)):
        assert result.dtype == torch.float32
        total = sum(0.25 + rank for rank in range(peers.size))
        assert torch.equal(result, torch.full((2 if "scatter" in call else 2 * peers.size, 3), total))
    assert (mine == 0.3 + peers.rank).all()


@pytest.mark.parametrize("name", ["named", None])
@pytest.mark.parametrize("call", CALLS)
def test_error_while_compressing_reaches_the_peers(call: str, name: str | None, peers: Peers) -> None:
    class Broken(Steps):
        def compress(self, tensor: torch.Tensor) -> Any:
            raise RuntimeError("cannot compress")

    for erring in range(peers.size):
        kind = Broken if peers.rank == erring else Steps
        expected = (RuntimeError, "cannot compress") if kind is Broken else (HorovodInternalError, "refused")
        with pytest.raises(expected[0], match=expected[1]):
            CALLS[call](torch.ones(peers.size), name=name, compression=kind(1.0))
        assert_works(peers, "named")


@pytest.mark.parametrize("make", [lambda: Steps(2.0**-10), lambda: FirstHalf], ids=["object", "class"])
@pytest.mark.parametrize("groups", [None, 1])
def test_optimizer(make: Callable[[], Any], groups: int | None, peers: Peers) -> None:
    model, expected = linear(1), linear(1)
    compression = make()
    optimizer = hvd.DistributedOptimizer(
        sgd(model), model.named_parameters(), compression, op=hvd.Sum, groups=groups
    )
    inner, before = sgd(expected), reductions()
    for step in range(4):
        optimizer.zero_grad()
        model(data(step, peers.rank)).square().mean().backward()
        optimizer.step()
        of_ranks = []
        for rank in range(peers.size):
            inner.zero_grad()
            expected(data(step, rank)).square().mean().backward()
            of_ranks.append([make().compress(each.grad) for each in expected.parameters()])
        for parameter, parts in zip(expected.parameters(), zip(*of_ranks, strict=True), strict=True):
            parameter.grad = make().decompress(sum(sent for sent, _ in parts), parts[0][1])
        inner.step()
    assert reductions() - before == 4 * 2
    assert compression is FirstHalf or compression.compressed == 4 * 2
    peers.assert_same_bits(*model.parameters())
    assert_close(model, expected)


def test_error_while_decompressing_leaves_no_name_in_use(peers: Peers) -> None:
    class Moody(Steps):
        broken = peers.rank == 0

        def decompress(self, tensor: torch.Tensor, ctx: torch.dtype) -> torch.Tensor:
            if self.broken:
                raise RuntimeError("cannot decompress")
            return super().decompress(tensor, ctx)

    model = torch.nn.Sequential(linear(1), linear(2))
    optimizer = hvd.DistributedOptimizer(sgd(model), compression=Moody(2.0**-10), op=hvd.Sum)
    model(data(0, peers.rank)).square().mean().backward()
    if peers.rank == 0:
        with pytest.raises(RuntimeError, match="cannot decompress"):
            optimizer.step()
    else:
        optimizer.step()
    Moody.broken = False
    hvd.broadcast_parameters(model.state_dict(), root_rank=1)
    optimizer.zero_grad()
    model(data(1, peers.rank)).square().mean().backward()
    optimizer.step()
    peers.assert_same_bits(*model.parameters())
