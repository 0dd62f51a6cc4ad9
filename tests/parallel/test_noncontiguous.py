"""Tensors of any strides work in every collective, and in-place results land in the original memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import torch
from harness.peers import Peers

import hora
import hora.torch as hvd

RANKS = (2, 3)

# Each makes a view of a larger tensor; what lies outside the view must keep its value.
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda base: base.t(),
    "every second column": lambda base: base[:, ::2],
    "every third row": lambda base: base[::3],
    "one column": lambda base: base[:, 3],
    "inner block": lambda base: base[1:5, 2:7],
    "offset row": lambda base: base[2],
    "diagonal": lambda base: base.diagonal(),
    "reshaped transposed": lambda base: base.view(4, 3, 2, 4).permute(3, 1, 0, 2),
    "channels last": lambda base: base.view(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "one element": lambda base: base[5, 5],
    "empty slice": lambda base: base[:, 3:3],
}
SHAPE = (12, 8)


def expected_sum(view: torch.Tensor, size: int) -> torch.Tensor:
    return view * size + size * (size - 1) // 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16])
@pytest.mark.parametrize("view", VIEWS)
def test_allreduce(view: str, dtype: torch.dtype, peers: Peers) -> None:
    plain = torch.arange(96).view(SHAPE).to(dtype)
    base = plain + peers.rank
    mine = VIEWS[view](base)
    result = hvd.allreduce(mine, op=hvd.Sum)
    assert torch.equal(result, expected_sum(VIEWS[view](plain), peers.size))
    assert torch.equal(mine, VIEWS[view](plain + peers.rank))


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_allreduce_in_place(view: str, asynchronous: bool, peers: Peers) -> None:
    plain = torch.arange(96, dtype=torch.float64).view(SHAPE)
    base = plain + peers.rank
    mine = VIEWS[view](base)
    strides, address = mine.stride(), mine.data_ptr()
    if asynchronous:
        result = hvd.synchronize(hvd.allreduce_async_(mine, op=hvd.Sum))
    else:
        result = hvd.allreduce_(mine, op=hvd.Sum)
    assert result is mine
    assert (mine.stride(), mine.data_ptr()) == (strides, address)
    assert torch.equal(mine, expected_sum(VIEWS[view](plain), peers.size))
    if view != "channels last":  # that one is a copy and no view of `base`
        untouched = plain + peers.rank
        VIEWS[view](untouched).copy_(mine)
        assert torch.equal(base, untouched)


@pytest.mark.parametrize("view", VIEWS)
def test_broadcast(view: str, peers: Peers) -> None:
    plain = torch.arange(96, dtype=torch.float32).view(SHAPE)
    for root in range(peers.size):
        base = plain + 100 * peers.rank
        mine = VIEWS[view](base)
        strides = mine.stride()
        assert torch.equal(hvd.broadcast(mine, root), VIEWS[view](plain + 100 * root))
        assert torch.equal(mine, VIEWS[view](plain + 100 * peers.rank))
        assert hvd.broadcast_(mine, root) is mine
        assert mine.stride() == strides
        assert torch.equal(mine, VIEWS[view](plain + 100 * root))


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "one element"])
def test_allgather(view: str, peers: Peers) -> None:
    plain = torch.arange(96, dtype=torch.float32).view(SHAPE)
    result = hvd.allgather(VIEWS[view](plain + 100 * peers.rank))
    assert torch.equal(result, torch.cat([VIEWS[view](plain + 100 * rank) for rank in range(peers.size)]))


def shares(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return each rank's rows; the first ranks get one more."""
    return torch.tensor_split(tensor, hvd.size())


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "one element"])
def test_alltoall_and_reducescatter(view: str, peers: Peers) -> None:
    plain = torch.arange(96, dtype=torch.float32).view(SHAPE)
    everyone = [VIEWS[view](plain + 100 * rank) for rank in range(peers.size)]
    mine = everyone[peers.rank]
    before = mine.clone()
    sent, received = hvd.alltoall(mine, [len(share) for share in shares(mine)])
    assert torch.equal(sent, torch.cat([shares(each)[peers.rank] for each in everyone]))
    assert received.tolist() == [len(shares(mine)[peers.rank])] * peers.size
    reduced = hvd.reducescatter(mine, op=hvd.Sum)
    assert torch.equal(reduced, shares(sum(everyone))[peers.rank])
    assert torch.equal(mine, before)


def test_groups(peers: Peers) -> None:
    plain = torch.arange(96, dtype=torch.float64).view(SHAPE)
    base = plain + peers.rank
    views = [make(base) for make in VIEWS.values()]
    totals = [expected_sum(make(plain), peers.size) for make in VIEWS.values()]
    for results in (
        hvd.grouped_allreduce(views, op=hvd.Sum),
        hvd.synchronize(hvd.grouped_allreduce_async(views, op=hvd.Sum, name="views")),
    ):
        assert all(map(torch.equal, results, totals))
    assert torch.equal(base, plain + peers.rank)
    longer = [make for view, make in VIEWS.items() if view != "one element"]
    gathered = hvd.grouped_allgather([make(base) for make in longer])
    scattered = hvd.grouped_reducescatter([make(base) for make in longer], op=hvd.Sum)
    for make, rows, share in zip(longer, gathered, scattered, strict=True):
        assert torch.equal(rows, torch.cat([make(plain + rank) for rank in range(peers.size)]))
        assert torch.equal(share, shares(expected_sum(make(plain), peers.size))[peers.rank])
    for make in VIEWS.values():
        own = plain + peers.rank
        mine = make(own)
        strides = mine.stride()
        (reduced,) = hvd.grouped_allreduce_([mine], op=hvd.Sum)
        assert reduced is mine and mine.stride() == strides
        assert torch.equal(mine, expected_sum(make(plain), peers.size))


@pytest.mark.parametrize("view", VIEWS)
def test_asynchronous_broadcast(view: str, peers: Peers) -> None:
    plain = torch.arange(96, dtype=torch.float32).view(SHAPE)
    mine = VIEWS[view](plain + 100 * peers.rank)
    strides = mine.stride()
    result = hvd.synchronize(hvd.broadcast_async(mine, 1, name="fresh"))
    assert torch.equal(result, VIEWS[view](plain + 100))
    assert hvd.synchronize(hvd.broadcast_async_(mine, 1, name="in place")) is mine
    assert mine.stride() == strides
    assert torch.equal(mine, VIEWS[view](plain + 100))


def test_optimizer(peers: Peers) -> None:
    """Channels-last convolutions and a transposed weight train like contiguous ones in one process."""

    def make() -> torch.nn.Sequential:
        torch.manual_seed(1)
        layers = torch.nn.Conv2d(3, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(16, 2)
        return torch.nn.Sequential(*layers).double()

    def backward(model: torch.nn.Module, step: int, ranks: list[int]) -> None:
        draws = [torch.Generator().manual_seed(100 * step + rank) for rank in ranks]
        inputs = [torch.randn(2, 3, 4, 4, generator=draw, dtype=torch.float64) for draw in draws]
        model(torch.cat(inputs)).square().mean().backward()

    expected, model = make(), make().to(memory_format=torch.channels_last)
    model[3].weight = torch.nn.Parameter(model[3].weight.detach().t().contiguous().t())
    strides = [parameter.stride() for parameter in model.parameters()]
    inner = torch.optim.SGD(expected.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(3):
        optimizer.zero_grad()
        inner.zero_grad()
        backward(model, step, [peers.rank])
        backward(expected, step, list(range(peers.size)))
        optimizer.step()
        inner.step()
    assert [parameter.stride() for parameter in model.parameters()] == strides
    assert strides[0] != expected[0].weight.stride()
    peers.assert_same_bits(*model.parameters())
    for mine, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)


def test_expanded_tensors(peers: Peers) -> None:
    mine = torch.tensor([[1.0], [2.0]]).expand(2, 5) + 0 * peers.rank
    expanded = torch.tensor([[peers.rank + 1.0]]).expand(3, 4)
    total = peers.size * (peers.size + 1) / 2
    assert hvd.allreduce(mine, op=hvd.Sum).tolist() == [[peers.size] * 5, [2 * peers.size] * 5]
    assert hvd.allreduce(expanded, op=hvd.Sum).tolist() == [[total] * 4] * 3
    assert hvd.broadcast(expanded, 1).tolist() == [[2.0] * 4] * 3
    assert hvd.allgather(expanded).shape == (3 * peers.size, 4)


def test_strides_may_differ_between_ranks(peers: Peers) -> None:
    plain = torch.arange(12, dtype=torch.float32).view(3, 4)
    mine = plain.t().contiguous().t() if peers.rank == 0 else plain.clone()
    assert torch.equal(hvd.allreduce(mine, op=hvd.Sum), plain * peers.size)
    assert torch.equal(hvd.allreduce_(mine, op=hvd.Sum), plain * peers.size)


def test_parameters_that_are_not_contiguous(peers: Peers) -> None:
    torch.manual_seed(peers.rank)
    model = torch.nn.Linear(3, 5)
    storage = torch.randn(3, 5)
    model.weight = torch.nn.Parameter(storage.t())
    model.register_buffer("table", torch.randn(6, 6)[:, ::2])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    assert model.weight.stride() == (1, 5)
    assert model.weight.data_ptr() == storage.data_ptr()
    peers.assert_same_bits(*model.state_dict().values())
    torch.manual_seed(0)
    torch.nn.Linear(3, 5)
    assert torch.equal(storage, torch.randn(3, 5))


def test_numpy_views(peers: Peers) -> None:
    base = numpy.arange(24.0).reshape(4, 6) + peers.rank
    total = numpy.arange(24.0).reshape(4, 6) * peers.size + peers.size * (peers.size - 1) / 2
    for view in (
        lambda array: array.T,
        lambda array: array[:, ::2],
        lambda array: array[::-1],
        lambda array: array[1],
    ):
        mine = base.copy()
        numpy.testing.assert_array_equal(hora.allreduce(view(mine), op=hora.Sum), view(total))
        numpy.testing.assert_array_equal(mine, base)
        assert hora.allreduce_(view(mine), op=hora.Sum).shape == view(total).shape
        expected = base.copy()
        view(expected)[...] = view(total)
        numpy.testing.assert_array_equal(mine, expected)


def test_fortran_order_and_other_byte_order(peers: Peers) -> None:
    fortran = numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4))
    numpy.testing.assert_array_equal(hora.allreduce(fortran, op=hora.Sum), fortran * peers.size)
    try:
        swapped = hora.allreduce(numpy.arange(3).astype(">f8"), op=hora.Sum)
    except (TypeError, ValueError):
        return  # refusing a foreign byte order is fine; a wrong number is not
    assert swapped.tolist() == [0, peers.size, 2 * peers.size]
