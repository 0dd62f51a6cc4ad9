"""SyncBatchNorm on shares of a batch equals BatchNorm on the whole batch, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from harness.peers import Peers

import hora.torch as hvd

RANKS = (2, 3)
CHANNELS = 4
SHAPES = {"2d": (), "3d": (5,), "4d": (3, 2), "5d": (2, 3, 2)}


def rows_of(peers: Peers, sizes: str) -> list[int]:
    """Return the rows of each rank's share."""
    return {
        "even": [3] * peers.size,
        "uneven": [rank + 1 for rank in range(peers.size)],
        "an empty one": [0, *[4] * (peers.size - 1)],
    }[sizes]


def plain(**options: Any) -> torch.nn.modules.batchnorm._BatchNorm:
    class AnyDimensions(torch.nn.BatchNorm2d):
        def _check_input_dim(self, input: torch.Tensor) -> None:
            pass

    return AnyDimensions(CHANNELS, **options)


def share(whole: torch.Tensor, rows: list[int], rank: int) -> torch.Tensor:
    return whole.split(rows)[rank].clone()


def draw(rows: list[int], shape: tuple[int, ...], seed: int = 0, dtype: Any = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(sum(rows), CHANNELS, *shape, generator=generator, dtype=torch.float64)
    return (3 * values + 10).to(dtype)


@pytest.mark.parametrize("sizes", ["even", "uneven", "an empty one"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("affine", [True, False])
def test_equals_batch_norm_on_the_joined_batch(sizes: str, shape: str, affine: bool, peers: Peers) -> None:
    rows = rows_of(peers, sizes)
    layer = hvd.SyncBatchNorm(CHANNELS, affine=affine).double()
    expected = plain(affine=affine).double()
    for step in range(3):
        whole = draw(rows, SHAPES[shape], step).requires_grad_()
        mine = share(whole.detach(), rows, peers.rank).requires_grad_()
        weights = draw(rows, SHAPES[shape], 100 + step)
        output, reference = layer(mine), expected(whole)
        (output * share(weights, rows, peers.rank)).sum().backward()
        (reference * weights).sum().backward()
        torch.testing.assert_close(output, share(reference, rows, peers.rank), rtol=0, atol=1e-10)
        assert whole.grad is not None
        torch.testing.assert_close(mine.grad, share(whole.grad, rows, peers.rank), rtol=0, atol=1e-10)
    if affine:
        for parameter, other in zip(layer.parameters(), expected.parameters(), strict=True):
            summed = hvd.allreduce(parameter.grad, op=hvd.Sum)
            torch.testing.assert_close(summed, other.grad, rtol=0, atol=1e-9)
    torch.testing.assert_close(layer.state_dict(), expected.state_dict(), rtol=0, atol=1e-10)
    peers.assert_same_bits(layer.running_mean, layer.running_var)


@pytest.mark.parametrize(
    "options", [{"momentum": None}, {"track_running_stats": False}, {"eps": 0.5}], ids=str
)
def test_options(options: dict[str, Any], peers: Peers) -> None:
    rows = rows_of(peers, "uneven")
    layer, expected = hvd.SyncBatchNorm(CHANNELS, **options).double(), plain(**options).double()
    for training in (True, True, False):
        layer.train(training)
        expected.train(training)
        whole = draw(rows, (2, 2), int(training))
        output = layer(share(whole, rows, peers.rank))
        torch.testing.assert_close(output, share(expected(whole), rows, peers.rank), rtol=0, atol=1e-10)
    torch.testing.assert_close(layer.state_dict(), expected.state_dict(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision(dtype: torch.dtype, peers: Peers) -> None:
    rows = rows_of(peers, "uneven")
    layer, expected = hvd.SyncBatchNorm(CHANNELS), plain()
    mine = share(draw(rows, (8, 8), dtype=dtype), rows, peers.rank).requires_grad_()
    reference = expected(draw(rows, (8, 8), dtype=dtype).float())
    output = layer(mine)
    output.float().square().sum().backward()
    assert output.dtype == mine.dtype
    assert mine.grad is not None
    assert mine.grad.isfinite().all()
    torch.testing.assert_close(output.float(), share(reference, rows, peers.rank), rtol=0, atol=0.05)


def test_evaluation_is_local(peers: Peers) -> None:
    layer = hvd.SyncBatchNorm(CHANNELS).eval()
    if peers.rank == 0:
        layer(draw([2], (2,), dtype=torch.float32))


def test_model_trains_like_one_process(peers: Peers) -> None:
    def make(norm: Any) -> torch.nn.Sequential:
        torch.manual_seed(1)
        return torch.nn.Sequential(
            torch.nn.Linear(6, CHANNELS), norm, torch.nn.Tanh(), torch.nn.Linear(CHANNELS, 1)
        ).double()

    rows = [4] * peers.size
    model, alone = make(hvd.SyncBatchNorm(CHANNELS)), make(plain())
    inner = torch.optim.SGD(alone.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
    )
    for step in range(5):
        whole = torch.randn(sum(rows), 6, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
        for each, stepping, inputs in (
            (model, optimizer, share(whole, rows, peers.rank)),
            (alone, inner, whole),
        ):
            stepping.zero_grad()
            each(inputs).square().mean().backward()
            stepping.step()
    peers.assert_same_bits(*model.parameters())
    torch.testing.assert_close(model.state_dict(), alone.state_dict(), rtol=0, atol=1e-10)


def test_one_value_per_channel_is_refused(peers: Peers) -> None:
    layer = hvd.SyncBatchNorm(CHANNELS)
    inputs = torch.zeros(1 if peers.rank == 0 else 0, CHANNELS)
    with pytest.raises(ValueError, match="more than 1 value"):
        layer(inputs)


def test_wrong_shapes_are_refused(peers: Peers) -> None:
    layer = hvd.SyncBatchNorm(CHANNELS)
    with pytest.raises(ValueError, match="dimensions"):
        layer(torch.zeros(4))
    with pytest.raises(ValueError, match="channels"):
        layer(torch.zeros(2, CHANNELS + 1))
