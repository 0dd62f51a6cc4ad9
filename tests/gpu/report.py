"""What the programs print: rows of JSON, by rank 0, the last of which has the outcome and a remark."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy

import hora


def row(**fields: Any) -> None:
    """Print a row."""
    print(json.dumps(fields), flush=True)


def first_row(**fields: Any) -> None:
    """Print a row on rank 0."""
    if hora.rank() == 0:
        row(**fields)


def percentiles(name: str, seconds: list[float]) -> dict[str, float]:
    """Return the spread of durations as fields in microseconds."""
    values = numpy.percentile(numpy.array(seconds) * 1e6, (10, 50, 90))
    return {
        f"{name}_p{rank}_us": round(float(value), 2) for rank, value in zip((10, 50, 90), values, strict=True)
    }


def finish(wrong: list[str], remark: str) -> None:
    """End the program on all ranks: it has failed when any rank has found something wrong."""
    found = [f"rank {rank}: {each}" for rank, all in enumerate(hora.allgather_object(wrong)) for each in all]
    if hora.rank() == 0:
        for each in found:
            row(wrong=each)
        row(outcome="failed" if found else "passed", remark=found[0] if found else remark)
    hora.shutdown()
    sys.exit(1 if found else 0)
