"""What one contender needed for one operation and size: its row in the table and in the JSON file."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
COLUMNS: tuple[str, ...] = (
    "op",
    "size (B)",
    "type",
    "contender",
    "p10 (us)",
    "time (us)",
    "p90 (us)",
    "p99 (us)",
)
COLUMNS += ("algbw (GB/s)", "busbw (GB/s)", "wrong", "/hora", "one-way (us)")


@dataclass(frozen=True)
class Row:
    """Times are those of the slowest rank in each iteration; `bytes` is what one rank puts in.

    `one_way_us` is how long a store needed between the cores of ranks 0 and 1 just before.
    """

    op: str
    bytes: int
    dtype: str
    ranks: int
    contender: str
    p10_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    algbw_GBps: float
    busbw_GBps: float
    wrong: int
    one_way_us: float | None

    def cells(self, hora_p50_us: float | None) -> list[str]:
        """Return the row as texts; the last but one says how many times longer than hora it took."""
        times = [f"{value:.1f}" for value in (self.p10_us, self.p50_us, self.p90_us, self.p99_us)]
        ratio = f"{self.p50_us / hora_p50_us:.2f}x" if hora_p50_us else "-"
        return [
            *(self.op, str(self.bytes), self.dtype, self.contender, *times),
            *(f"{self.algbw_GBps:.2f}", f"{self.busbw_GBps:.2f}", str(self.wrong), ratio),
            "-" if self.one_way_us is None else f"{self.one_way_us:.3f}",
        ]


def bus_factor(op: str, ranks: int) -> float:
    """Return bus bandwidth by algorithm bandwidth: what each link carries at least, as in nccl-tests.

    2 (n-1) / n for allreduce, (n-1) / n for what moves all but a rank's own part, (n-1) for allgather, of
    which the size is one rank's part, and 1 for broadcast.
    """
    others = (ranks - 1) / ranks
    factors = {"allreduce": 2 * others, "allgather": ranks - 1.0, "broadcast": 1.0}
    return factors.get(op, others)


def make_row(
    memory: tuple[str, int, str],
    ranks: int,
    contender: str,
    seconds: NDArray[np.float64],
    wrong: int,
    one_way_us: float | None,
) -> Row:
    """Summarise the iterations of one contender; `memory` is operation, bytes and dtype."""
    op, size, dtype = memory
    p10, p50, p90, p99 = (float(value) for value in np.percentile(seconds * 1e6, (10, 50, 90, 99)))
    speed = size / p50 / 1e3
    bus = speed * bus_factor(op, ranks)
    return Row(op, size, dtype, ranks, contender, p10, p50, p90, p99, speed, bus, wrong, one_way_us)


def merge(rounds: Iterable[Row]) -> list[Row]:
    """Return one row for what several rounds measured: the median of each figure, the worst `wrong`."""
    groups: dict[tuple[str, int, str, int, str], list[Row]] = {}
    for row in rounds:
        groups.setdefault((row.op, row.bytes, row.dtype, row.ranks, row.contender), []).append(row)
    return [merge_rows(rows) for rows in groups.values()]


def merge_rows(rows: Sequence[Row]) -> Row:
    figures = ("p10_us", "p50_us", "p90_us", "p99_us", "algbw_GBps", "busbw_GBps")
    medians: dict[str, Any] = {
        name: statistics.median(getattr(row, name) for row in rows) for name in figures
    }
    wrong = max(row.wrong for row in rows)
    one_way = median_or_none(row.one_way_us for row in rows)
    return replace(rows[0], **medians, wrong=wrong, one_way_us=one_way)


def median_or_none(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def make_table(rows: Sequence[Row], title: str) -> Table:
    """Return rows as a table in which the contenders of one operation and size follow each other."""
    table = Table(title=title)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("op", "type", "contender") else "right")
    order = list(dict.fromkeys((row.op, row.dtype) for row in rows))
    rows = sorted(rows, key=lambda row: (order.index((row.op, row.dtype)), row.bytes))
    hora = {(row.op, row.dtype, row.bytes): row.p50_us for row in rows if row.contender == "hora"}
    for row in rows:
        table.add_row(*row.cells(hora.get((row.op, row.dtype, row.bytes))))
    return table


def console() -> Console:
    """Return where tables go; wide enough for every table, for under mpirun a terminal has no width."""
    return Console(width=max(shutil.get_terminal_size().columns, 170))
