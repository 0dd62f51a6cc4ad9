"""Small agreements between the ranks of an optimizer, by one allreduce each.

The reduction is a sum, in which ranks that have joined do not take part. So every rank learns the same, also
how many took part, and decides alike.
"""

from __future__ import annotations

import hashlib

import torch

__all__ = ["ballot", "is_unanimous"]

PIECES = 4
PIECE_BYTES = 2  # the square of a piece, times the number of ranks, stays below 2^63


def ballot(opinion: object) -> torch.Tensor:
    """Return the tensor whose sum over ranks tells whether their opinions, as ``repr`` has them, agree."""
    digest = hashlib.sha256(repr(opinion).encode()).digest()
    pieces = [
        int.from_bytes(digest[at : at + PIECE_BYTES], "little")
        for at in range(0, PIECES * PIECE_BYTES, PIECE_BYTES)
    ]
    return torch.tensor([1, *pieces, *(piece * piece for piece in pieces)])


def is_unanimous(total: torch.Tensor, voters: int) -> bool | None:
    """Return whether all ranks had the same opinion; None if not all took part.

    Numbers are all equal just when the square of their sum is the sum of their squares times their number.
    """
    count, *values = total.tolist()
    if count != voters:
        return None
    sums, squares = values[:PIECES], values[PIECES:]
    return all(number * number == count * square for number, square in zip(sums, squares, strict=True))
