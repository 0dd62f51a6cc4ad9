"""Times the sum of many small tensors, as gradients are: one call for each, and one grouped call for all.

    python benchmarks/python/small_tensors.py

Timed is from the first submission until the last result is there. hora and Horovod submit every tensor, then
wait; Gloo does so with asynchronous calls; raw MPI makes one blocking call after the other. hora and MPI take
turns in the same processes, Gloo and Horovod, whose threads would disturb them, in launches of their own.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from contender import Contender
from contenders import join
from launch import FAST_HOROVOD, Launch, alternate, installed, under_launcher, write_json
from referee import Referee, find_referee, open_page
from results import console, median_or_none
from rich.table import Table

CASES = ((100, 1 << 10), (1000, 1 << 10), (100, 64 << 10))  # tensors, bytes of each
LAUNCHES = (
    Launch(("hora", "mpi")),
    Launch(("gloo",), {}, "torch"),
    Launch(("horovod",), FAST_HOROVOD, "horovod"),
)
TIMES = ("p10_us", "p50_us", "p90_us")
LIMIT_S = 120.0
CASE_S = 8.0  # for one case in one launch, even if some contender is very slow
LEAST_TURNS = 3


@dataclass(frozen=True)
class Row:
    """Times for all tensors together, of the slowest rank."""

    tensors: int
    bytes: int
    mode: str
    contender: str
    ranks: int
    p10_us: float
    p50_us: float
    p90_us: float
    one_way_us: float | None


def make_calls(
    contenders: Mapping[str, Contender], tensors: int, size: int
) -> dict[tuple[str, str], Callable[[], Any]]:
    """Return the calls to time by contender and mode; all work on the same tensors, which stay zero."""
    arrays = [np.zeros(size // 4, np.float32) for _ in range(tensors)]
    calls: dict[tuple[str, str], Callable[[], Any]] = {}
    for name, contender in contenders.items():
        for mode in ("single", "grouped"):
            try:
                calls[name, mode] = contender.prepare_many(arrays, mode == "grouped")
            except NotImplementedError:
                continue
    return calls


def check(calls: Mapping[tuple[str, str], Callable[[], Any]], contenders: Mapping[str, Contender]) -> None:
    """Sum ones over the ranks with every contender."""
    for name, mode in calls:
        arrays = [np.ones(4, np.float32) for _ in range(3)]
        contenders[name].prepare_many(arrays, mode == "grouped")()
        if len({float(array[0]) for array in arrays}) != 1 or arrays[0][0] < 1:
            raise RuntimeError(f"{name} got wrong sums")


def time_case(
    contenders: Mapping[str, Contender], tensors: int, size: int, referee: Referee, turns: int
) -> list[Row]:
    page = open_page(referee)
    calls = make_calls(contenders, tensors, size)
    check(calls, contenders)
    one_way_us = page.one_way_us()
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    order = deque(calls)
    began = time.perf_counter()
    for turn in range(turns + 1):
        spent = referee.largest(np.array([time.perf_counter() - began]))
        if turn > LEAST_TURNS and spent[0] > CASE_S:
            break
        for key in order:
            referee.barrier()
            start = time.perf_counter()
            calls[key]()
            seconds[key] += [time.perf_counter() - start] if turn else []  # the first turn warms up
        order.rotate()
    rows = []
    for (name, mode), measured in seconds.items():
        slowest = referee.largest(np.array(measured)) * 1e6
        p10, p50, p90 = (float(value) for value in np.percentile(slowest, (10, 50, 90)))
        rows.append(Row(tensors, size, mode, name, referee.size, p10, p50, p90, one_way_us))
    return rows


def merge(rounds: list[Row]) -> list[Row]:
    """Return one row for what was measured in several rounds."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rounds:
        groups.setdefault((row.tensors, row.bytes, row.mode, row.contender, row.ranks), []).append(row)
    return [merge_rows(rows) for rows in groups.values()]


def merge_rows(rows: list[Row]) -> Row:
    times: dict[str, Any] = {name: statistics.median(getattr(row, name) for row in rows) for name in TIMES}
    return replace(rows[0], **times, one_way_us=median_or_none(row.one_way_us for row in rows))


def show(rows: list[Row]) -> None:
    table = Table(title=f"many small tensors, {rows[0].ranks} ranks")
    headings = (
        "tensors",
        "calls",
        "contender",
        "p10 (us)",
        "time (us)",
        "p90 (us)",
        "us per tensor",
        "/hora",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("calls", "contender") else "right")
    hora = {(row.tensors, row.bytes, row.mode): row.p50_us for row in rows if row.contender == "hora"}
    for row in sorted(rows, key=lambda row: (row.bytes, row.tensors, row.mode)):
        reference = hora.get((row.tensors, row.bytes, row.mode))
        times = [f"{value:.0f}" for value in (row.p10_us, row.p50_us, row.p90_us)]
        each = f"{row.p50_us / row.tensors:.2f}"
        ratio = f"{row.p50_us / reference:.2f}x" if reference else "-"
        what = f"{row.tensors} x {row.bytes >> 10} KiB"
        table.add_row(what, row.mode, row.contender, *times, each, ratio)
    console().print(table)


def measure(options: argparse.Namespace, referee: Referee) -> list[Row]:
    contenders = join(options.contenders, referee)
    rows = []
    for tensors, size in CASES:
        rows += time_case(contenders, tensors, size, referee, options.turns)
    for contender in contenders.values():
        contender.close()
    return rows


def drive(options: argparse.Namespace) -> list[Row]:
    arguments = ["--turns", str(options.turns)]
    wanted = [
        replace(each, contenders=tuple(name for name in each.contenders if name in options.contenders))
        for each in LAUNCHES
    ]
    launches = [each for each in wanted if each.contenders]
    script = Path(__file__)
    rounds = alternate(script, arguments, installed(launches), options.ranks, options.rounds, LIMIT_S)
    return merge([Row(**row) for rows in rounds for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everyone = [name for launch in LAUNCHES for name in launch.contenders]
    parser.add_argument("--contenders", nargs="+", choices=everyone, default=everyone)
    parser.add_argument("--turns", type=int, help="times each contender is measured in a launch; default: 60")
    parser.add_argument("--ranks", type=int, default=2, help="without mpirun")
    parser.add_argument("--rounds", type=int, help="of launches, without mpirun; default: 3")
    parser.add_argument("--quick", action="store_true", help="one round of few turns")
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    options = parser.parse_args()
    options.turns = options.turns or (3 if options.quick else 60)
    options.rounds = options.rounds or (1 if options.quick else 3)
    referee = find_referee() if under_launcher() else None
    rows = measure(options, referee) if referee else drive(options)
    if referee is None or referee.rank == 0:
        show(rows)
        write_json(options.json, [asdict(row) for row in rows])


if __name__ == "__main__":
    main()
