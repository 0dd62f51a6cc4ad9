"""Checks that a difference between ranks is the same error everywhere and harms nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from front_ends import FRONT_ENDS, FrontEnd
from harness.peers import Peers, bits

import hora

#: What the groups of ranks sent that an error tells apart: by their ranks, then by attribute.
Sent = dict[str, dict[str, str]]

#: Files in which tests call collectives.
PLACE = r".*(test_\w+|front_ends)\.py:\d+"


def ranks_text(ranks: Sequence[int]) -> str:
    """Return ranks as error messages write them: `3`, `0,1`, `0-2`."""
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks))


def without(odd: int, size: int) -> list[int]:
    return [rank for rank in range(size) if rank != odd]


def one_against_others(odd: int, size: int, odd_sent: dict[str, str], sent: dict[str, str]) -> Sent:
    """Return what an error tells of a rank that sent something else than the others."""
    return {str(odd): odd_sent, ranks_text(without(odd, size)): sent}


def table_of(text: str) -> Sent:
    """Read the table of an error."""
    _, head, *lines = text.splitlines()
    titles = re.split(" {2,}", head.strip())
    rows = [dict(zip(titles, re.split(" {2,}", line.strip()), strict=True)) for line in lines]
    return {row.pop("ranks"): row for row in rows}


def place_in(file: Path, mark: str) -> str:
    """Return file and line of the one call in a file that is marked so by a remark."""
    lines = [
        number for number, line in enumerate(file.read_text().splitlines(), 1) if line.endswith(f"# {mark}")
    ]
    assert len(lines) == 1, mark
    return f"{file.name}:{lines[0]}"


def assert_disagreement(
    peers: Peers,
    call: Callable[[], Any],
    name: str,
    sent: Sent,
    tensors: Sequence[Any] = (),
    front: FrontEnd = FRONT_ENDS[-1],
) -> None:
    """Fail unless `call` raises one error on all ranks that tells who `sent` what and leaves `tensors`.

    Afterwards the same name must be usable, and so must unnamed calls.
    """
    before = [bits(tensor) for tensor in tensors]
    with pytest.raises(front.disagreed) as caught:
        call()
    text = front.text(caught.value)
    peers.assert_same(text)
    assert f" '{name}': ranks differ in " in text.splitlines()[0], text
    table = table_of(text)
    for row in table.values():
        assert re.fullmatch(PLACE, row.pop("called at")), text
    assert table == sent, text
    for tensor, old in zip(tensors, before, strict=True):
        assert bits(tensor) == old
    assert_works(peers, name, front)


def assert_works(peers: Peers, name: str, front: FrontEnd = FRONT_ENDS[-1]) -> None:
    """Fail unless correct calls under `name` and without a name give right results."""
    for options in ({"name": name}, {}):
        mine = front.tensor([peers.rank + 1.0] * 5, "float32")
        result = front.result("allreduce", mine, op=hora.Sum, **options)
        assert front.array(result).tolist() == [peers.size * (peers.size + 1) / 2] * 5
