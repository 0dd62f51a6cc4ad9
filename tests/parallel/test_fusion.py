"""Results do not depend on what travels together or on the answer cache; bad settings are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness.peers import Peers

import hora
import hora.torch as hvd

RANKS = (2, 3, 4)
Restart = Callable[..., None]
BYTES = 4000


def sizes(peers: Peers) -> list[int]:
    threshold = BYTES // 4
    return [
        threshold - 1,
        threshold,
        threshold + 1,
        1,
        0,
        peers.size,
        3 * threshold,
        threshold // 2,
        threshold // 2,
    ]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("threshold", [0, 1, BYTES, None, 1 << 40])
def test_fusion_threshold_changes_no_result(
    threshold: int | None, in_place: bool, restart: Restart, peers: Peers
) -> None:
    if threshold is not None:
        restart(HORA_FUSION_THRESHOLD=threshold)
    start = hvd.allreduce_async_ if in_place else hvd.allreduce_async
    for _ in range(3):
        inputs = [torch.arange(size, dtype=torch.float32) % 97 + peers.rank for size in sizes(peers)]
        handles = [start(tensor, name=f"fused.{at}", op=hvd.Sum) for at, tensor in enumerate(inputs)]
        results = [hvd.synchronize(handle) for handle in handles]
        for size, result in zip(sizes(peers), results, strict=True):
            expected = (torch.arange(size) % 97) * peers.size + peers.size * (peers.size - 1) // 2
            assert torch.equal(result, expected.float())
        peers.assert_same_bits(*results)


@pytest.mark.parametrize("threshold", [0, BYTES, 1 << 30])
def test_mixed_dtypes_and_operations_in_flight(threshold: int, restart: Restart, peers: Peers) -> None:
    restart(HORA_FUSION_THRESHOLD=threshold)
    total = peers.size * (peers.size + 1) // 2
    kinds = [torch.float32, torch.float64, torch.int64, torch.float16, torch.bfloat16, torch.uint8]
    waiting = []
    for number in range(60):
        dtype = kinds[number % len(kinds)]
        mine = torch.full((number % 7 * 100,), peers.rank + 1).to(dtype)
        waiting.append((hvd.allreduce_async(mine, name=f"r.{number}", op=hvd.Sum), [total] * len(mine)))
        waiting.append((hvd.broadcast_async(mine, 1, name=f"b.{number}"), [2] * len(mine)))
        gathered = [rank + 1 for rank in range(peers.size) for _ in range(len(mine))]
        waiting.append((hvd.allgather_async(mine, name=f"g.{number}"), gathered))
        waiting.append((hvd.allreduce_async(mine, name=f"m.{number}", op=hvd.Max), [peers.size] * len(mine)))
    for handle, expected in waiting:
        assert hvd.synchronize(handle).tolist() == expected


@pytest.mark.parametrize("reduction", ["Average", "Sum"])
def test_scale_factors_within_a_batch(reduction: str, peers: Peers) -> None:
    handles = [
        hvd.allreduce_async(
            torch.ones(10), name=f"s.{n}", op=getattr(hvd, reduction), prescale_factor=float(n)
        )
        for n in range(20)
    ]
    each = peers.size if reduction == "Sum" else 1
    for number, handle in enumerate(handles):
        assert hvd.synchronize(handle).tolist() == [number * each] * 10


@pytest.mark.parametrize("capacity", [0, 1, 2, 1000])
def test_cache_capacity_changes_no_result(capacity: int, restart: Restart, peers: Peers) -> None:
    restart(HORA_CACHE_CAPACITY=capacity)
    for step in range(20):
        handles = [hvd.allreduce_async(torch.full((3,), float(step + n)), name=f"c.{n}") for n in range(50)]
        for number, handle in enumerate(handles):
            assert hvd.synchronize(handle).tolist() == [step + number] * 3


SETTINGS = {
    "HORA_FUSION_THRESHOLD": ["-1", "many", "1.5", str(1 << 60)],
    "HORA_CACHE_CAPACITY": ["-1", "x", str(1 << 60)],
    "HORA_PIECE_BYTES": ["0", "-4", "big", str(1 << 60)],
    "HORA_HOST_SPLIT": ["0", "1,,1", "a,b", "99", "-1,3"],
    "HORA_LOG_LEVEL": ["loud", "WARNINGS"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in SETTINGS.items() for value in values]
)
def test_bad_settings_are_refused(name: str, value: str, restart: Restart, peers: Peers) -> None:
    with pytest.raises(ValueError) as caught:
        restart(**{name: value})
    assert name in str(caught.value)
    assert value in str(caught.value)
    assert not hora.is_initialized()
