"""Times allreduce between two hosts that a link of 1 Gbit/s connects, beside what the link can do.

    python benchmarks/python/two_hosts.py

Builds the hosts of network namespaces (see bed.py), which only root may do; elsewhere it says why it skips.
Contenders take turns in the same processes. ``tcp`` is the limit: one process per host, and as many bytes
each way as are to be reduced. Results of the others are checked. Gloo, whose threads would disturb them, has
a launch of its own when it is asked for.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bed import ADDRESSES, INTERFACE, MBIT_PER_S, Bed, NoBed, leave_nothing_when_ended, open_bed
from cells import Cell, time_cell
from contender import Contender
from contenders import Gloo, HoraNumpy, Mpi, join
from launch import Launch, alternate, installed, under_launcher, write_json
from raw_tcp import RawTcp
from referee import Referee, find_referee, open_page
from results import Row, console, merge
from rich.table import Table
from sweep import QUICK_SIZES, bytes_of

SIZES = (4, 1 << 10, 64 << 10, 1 << 20, 16 << 20)
OFFERED: dict[str, Callable[[Referee], Contender]] = {
    "tcp": lambda referee: RawTcp(referee, ADDRESSES[0]),
    "hora": lambda referee: HoraNumpy(),
    "mpi": lambda referee: Mpi(),
    "gloo": Gloo,
}
ALONE = Launch(("gloo",), {"GLOO_SOCKET_IFNAME": INTERFACE}, "torch")
START_S = 60.0  # for processes to start and end
LEAST_SHARE = 2 << 20  # smaller sizes get as much time as this one, larger ones by size
FULL_SPEED = 0.9  # of the link, reached by an exchange of many bytes


def measure(options: argparse.Namespace, referee: Referee) -> list[Row]:
    """Time every size on the ranks of both hosts."""
    page = open_page(referee)
    contenders = join(options.contenders, referee, OFFERED)
    until = time.perf_counter() + options.budget
    shares = [max(size, LEAST_SHARE) for size in options.sizes]
    rows: list[Row] = []
    for number, size in enumerate(options.sizes):
        left_s = until - time.perf_counter()
        cell = Cell("allreduce", size, "float32", referee)
        rows += time_cell(cell, contenders, page, left_s * shares[number] / sum(shares[number:]))
    for contender in contenders.values():
        contender.close()
    return rows


def drive(options: argparse.Namespace, bed: Bed) -> list[Row]:
    """Start ranks on both hosts for each number of them per host."""
    together = tuple(name for name in options.contenders if name not in ALONE.contenders)
    launches = [Launch(together)] if together else []
    launches += [ALONE] if set(ALONE.contenders) <= set(options.contenders) else []
    launches = installed(launches)
    budget_s = options.budget / len(options.ranks_per_host) / options.rounds / max(len(launches), 1)
    arguments = ["--sizes", *map(str, options.sizes), "--budget", str(budget_s)]
    rows: list[Row] = []
    for count in options.ranks_per_host:
        turns = (2 * count, options.rounds, 5 * budget_s + START_S)
        found = alternate(Path(__file__), arguments, launches, *turns, start=bed.mpirun(count))
        rows += merge(Row(**row) for part in found for row in part)
    return rows


def mbit_per_s(row: Row) -> float:
    """Return what each direction carried of the tensor itself."""
    return row.bytes * 8 / row.p50_us


def make_table(rows: list[Row]) -> Table:
    """Return rows as a table; the last column is the time by that of the raw exchange."""
    headings = (
        "ranks per host",
        "size (B)",
        "contender",
        "p10 (us)",
        "time (us)",
        "p90 (us)",
        "Mbit/s",
        "wrong",
        "/tcp",
    )
    table = Table(title=f"allreduce of float32, two hosts at {MBIT_PER_S} Mbit/s each way")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "contender" else "right")
    limits = {(row.ranks, row.bytes): row.p50_us for row in rows if row.contender == "tcp"}
    for row in rows:
        limit = limits.get((row.ranks, row.bytes))
        times = [f"{value:.1f}" for value in (row.p10_us, row.p50_us, row.p90_us)]
        ratio = f"{row.p50_us / limit:.2f}x" if limit else "-"
        place = [str(row.ranks // 2), str(row.bytes), row.contender]
        table.add_row(*place, *times, f"{mbit_per_s(row):.0f}", str(row.wrong), ratio)
    return table


def doubts(rows: list[Row]) -> list[str]:
    """Say where the raw exchange of many bytes is not what the link should carry."""
    limits = [row for row in rows if row.contender == "tcp" and row.bytes >= SIZES[-1]]
    speeds = {row.ranks // 2: mbit_per_s(row) for row in limits}
    return [
        f"# {count} per host: raw TCP carried {speed:.0f} Mbit/s, not just below {MBIT_PER_S}"
        for count, speed in speeds.items()
        if not FULL_SPEED < speed / MBIT_PER_S <= 1
    ]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=bytes_of, help="such as 4 1K 16M; default: 4 to 16M")
    parser.add_argument("--ranks-per-host", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--contenders", nargs="+", choices=OFFERED, default=["tcp", "hora", "mpi"])
    parser.add_argument("--budget", type=float, help="seconds to measure, everything together; default: 30")
    parser.add_argument("--rounds", type=int, default=1, help="of launches")
    parser.add_argument("--quick", action="store_true", help="few sizes, seconds")
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    options = parser.parse_args()
    options.sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    options.budget = options.budget or (2.0 if options.quick else 30.0)
    return options


def main() -> None:
    options = parse_options()
    if under_launcher():
        referee = find_referee()
        rows = measure(options, referee)
        if referee.rank == 0:
            write_json(options.json, [asdict(row) for row in rows])
        return
    leave_nothing_when_ended()
    try:
        with open_bed() as bed:
            rows = drive(options, bed)
    except NoBed as reason:
        print(f"two hosts: skipped, because {reason}")
        write_json(options.json, {"skipped": str(reason)})
        return
    console().print(make_table(rows))
    for doubt in doubts(rows):
        print(doubt)
    write_json(options.json, [asdict(row) | {"ranks_per_host": row.ranks // 2} for row in rows])
    if any(row.wrong for row in rows):
        sys.exit("some results were wrong")


if __name__ == "__main__":
    main()
