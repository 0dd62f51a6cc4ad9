"""Checks that a difference between ranks is the same error everywhere and harms nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from harness.peers import Peers, bits

import hora.torch as hvd
from hora.errors import HorovodInternalError


def ranks_text(ranks: Sequence[int]) -> str:
    """Return ranks as error messages write them: `rank 3`, `ranks 0,1`, `ranks 0-2`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]}-{ranks[-1]}"
    return "ranks " + ",".join(map(str, ranks))


def without(odd: int, size: int) -> list[int]:
    return [rank for rank in range(size) if rank != odd]


def assert_disagreement(
    peers: Peers, call: Callable[[], Any], name: str, parts: Sequence[str], tensors: Sequence[Any] = ()
) -> None:
    """Fail unless `call` raises one error on all ranks that names `name` and `parts`, and leaves `tensors`.

    Afterwards the same name must be usable, and so must unnamed calls.
    """
    before = [bits(tensor) for tensor in tensors]
    with pytest.raises(HorovodInternalError) as caught:
        call()
    text = str(caught.value)
    peers.assert_same(text)
    for part in (f"'{name}'", *parts):
        assert part in text, f"{part!r} is missing in {text!r}"
    for tensor, old in zip(tensors, before, strict=True):
        assert bits(tensor) == old
    assert_works(peers, name)


def assert_works(peers: Peers, name: str) -> None:
    """Fail unless correct calls under `name` and without a name give right results."""
    for options in ({"name": name}, {}):
        result = hvd.allreduce(torch.full((5,), float(peers.rank + 1)), op=hvd.Sum, **options)
        assert result.tolist() == [peers.size * (peers.size + 1) / 2] * 5
