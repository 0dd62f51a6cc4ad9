"""What the benchmarks left in build/bench/*.json, looked up by what targets and tables ask for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
KIB, MIB = 1 << 10, 1 << 20


class Figures:
    """The files of one folder; one that is absent has no rows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> Any:
        path = self._folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def rows(self, name: str) -> Rows:
        content = self.read(name)
        return content if isinstance(content, list) else []

    def skipped(self, name: str) -> str | None:
        """Return why a measurement was skipped, None if it was not."""
        content = self.read(name)
        return content.get("skipped") if isinstance(content, dict) else None

    def cpp(self, name: str) -> Rows:
        """Return the rows of a file of Google Benchmark."""
        rows: Rows = (self.read(name) or {}).get("benchmarks", [])
        return rows


def pick(rows: Iterable[dict[str, Any]], **wanted: Any) -> Rows:
    """Return the rows that have these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def by_size(rows: Rows, least: int, most: int, contender: str, **wanted: Any) -> dict[int, dict[str, Any]]:
    """Return the rows of a contender between two sizes, by size."""
    chosen = pick(rows, contender=contender, **wanted)
    return {row["bytes"]: row for row in chosen if least <= row["bytes"] <= most}


Sizes = tuple[int, int]


def worst_speed(
    rows: Rows, sizes: Sizes, contenders: tuple[str, ...], hora: str = "hora", **wanted: Any
) -> float | None:
    """Return how many times faster than others hora's allreduce is, at the size where that is least.

    Of several contenders the fastest at each size counts.
    """
    wanted = {"op": "allreduce", "dtype": "float32", **wanted}
    own = by_size(rows, *sizes, hora, **wanted)
    others = [by_size(rows, *sizes, name, **wanted) for name in contenders]
    if not all(others):
        return None
    return least(
        min(other[size]["p50_us"] for other in others) / row["p50_us"]
        for size, row in own.items()
        if all(size in other for other in others)
    )


def worst_figure(
    rows: Rows, sizes: Sizes, figure: Callable[[dict[str, Any]], float], **wanted: Any
) -> float | None:
    """Return the largest figure of hora's allreduce between two sizes."""
    own = by_size(rows, *sizes, "hora", op="allreduce", dtype="float32", **wanted)
    return most(figure(row) for row in own.values())


def least(values: Iterable[float]) -> float | None:
    return min(values, default=None)


def most(values: Iterable[float]) -> float | None:
    return max(values, default=None)
