"""The table of targets: what must be reached, what was measured, whether that is enough; ``make targets``.

Reads build/bench/*.json, which ``make bench`` writes, and says "not measured" for what is not there. Where a
target holds for several sizes, the worst of them counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from figures import KIB, MIB, Figures, Rows, most, pick, worst_figure, worst_speed
from launch import OUTPUT
from results import console
from rich.table import Table

SMALL = (4, KIB)
HUGE = 1 << 40
OVERHEADS = (  # workload, title, percent
    ("conv", "small convolutional net", 8.0),
    ("tensors100", "100-tensor net", 30.0),
    ("mlp-b32", "50M MLP, batch 32", 15.0),
    ("mlp-b256", "50M MLP, batch 256", 5.0),
)


@dataclass(frozen=True)
class Target:
    """One line of the table."""

    area: str
    what: str
    sign: str  # of the comparison, ">=" or "<="
    limit: float
    unit: str
    measured: float | None

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        met = self.measured >= self.limit if self.sign == ">=" else self.measured <= self.limit
        return "met" if met else "missed"

    def cells(self) -> list[str]:
        value = "-" if self.measured is None else f"{self.measured:.3g}{self.unit}"
        return [self.area, self.what, f"{self.sign} {self.limit:g}{self.unit}", value, self.verdict]


def at_least(area: str, what: str, limit: float, measured: float | None, unit: str = "x") -> Target:
    return Target(area, what, ">=", limit, unit, measured)


def at_most(area: str, what: str, limit: float, measured: float | None, unit: str = " %") -> Target:
    return Target(area, what, "<=", limit, unit, measured)


def small_allreduce(figures: Figures) -> Iterator[Target]:
    rows, area = figures.rows("sweep_2"), "allreduce of 4 B to 1 KiB"
    tail = worst_figure(rows, SMALL, lambda row: row["p99_us"] / row["p50_us"])
    cpp = [row for row in figures.cpp("scaling_cpp_2") if row["name"].startswith("allreduce/")]
    yield at_least(area, "against Gloo", 10, worst_speed(rows, SMALL, ("gloo",)))
    yield at_least(area, "against Horovod, cycle of 0.1 ms", 10, worst_speed(rows, SMALL, ("horovod",)))
    yield at_most(area, "median", 12, worst_figure(rows, SMALL, lambda row: row["p50_us"]), " us")
    yield at_most(area, "p99 by median", 3, tail, "x")
    ratio = most(row["hora/mpi"] for row in cpp if row["bytes"] <= KIB)
    yield at_most(area, "from C++, time by raw MPI's", 2.5, ratio, "x")
    many = figures.rows("sweep_4")
    yield at_least(area, "4 ranks on 2 cores, against Gloo", 8, worst_speed(many, SMALL, ("gloo",)))


def large_allreduce(figures: Figures) -> Iterator[Target]:
    rows, area, best = figures.rows("sweep_2"), "user-owned buffers", ("mpi", "mpi-no-cma")
    middle, large = (256 * KIB, 16 * MIB), (64 * MIB, 256 * MIB)
    for title, sizes, other, limit in (
        ("16-64 KiB, against MPI's default", (16 * KIB, 64 * KIB), ("mpi",), 4.0),
        ("256 KiB-16 MiB, against MPI's default", middle, ("mpi",), 2.0),
        ("256 KiB-16 MiB, against MPI's best setting", middle, best, 1.5),
        ("64-256 MiB, against both settings of MPI", large, best, 2.0),
        ("from 1 MiB, against Gloo", (MIB, HUGE), ("gloo",), 10.0),
        ("64-256 MiB, share of the memory bound", large, ("memory",), 0.5),
    ):
        yield at_least(area, title, limit, worst_speed(rows, sizes, other))
    area = "DeepSpeed's CPU allreduce"
    yield at_least(area, "up to 64 KiB", 4, worst_speed(rows, (4, 64 * KIB), ("deepspeed",)))
    yield at_least(area, "every size", 2, worst_speed(rows, (4, HUGE), ("deepspeed",)))
    area, large = "hora-owned buffers", (16 * MIB, HUGE)
    yield at_least(area, "from 16 MiB, against MPI", 4, worst_speed(rows, large, ("mpi",), "hora-own"))
    bound = worst_speed(rows, large, ("memory",), "hora-own")
    yield at_least(area, "from 16 MiB, share of the memory bound", 0.85, bound)
    halves = figures.rows("sweep_halves_2")
    for dtype in ("float16", "bfloat16"):
        yield at_least("halves", f"{dtype}, elements/s by float32's", 1.9, half_speed(halves, dtype))
    many = worst_speed(figures.rows("sweep_4"), (MIB, HUGE), ("mpi",))
    yield at_least("4 ranks on 2 cores", "from 1 MiB, against MPI", 2, many)


def half_speed(rows: Rows, dtype: str) -> float | None:
    """Return elements per second by those of float32, in buffers of as many bytes; the worst size."""
    own = pick(rows, op="allreduce", contender="hora")
    full = {row["bytes"]: row["p50_us"] for row in pick(own, dtype="float32")}
    halves = {row["bytes"]: row["p50_us"] for row in pick(own, dtype=dtype)}
    return min((2 * full[size] / time for size, time in halves.items() if size in full), default=None)


def small_tensors(figures: Figures) -> Iterator[Target]:
    rows = pick(figures.rows("small_tensors_2"), tensors=100, bytes=KIB)
    times = {(row["contender"], row["mode"]): row["p50_us"] for row in rows}
    gloo = times.get(("gloo", "single"))
    for mode, title, speed, each in (("grouped", "grouped", 100, 1), ("single", "100 single calls", 50, 3)):
        own = times.get(("hora", mode))
        ratio = gloo / own if gloo and own else None
        yield at_least("100 x 1 KiB", f"{title}, against Gloo", speed, ratio)
        yield at_most("100 x 1 KiB", f"{title}, per tensor", each, own / 100 if own else None, " us")
    submit = (figures.read("submit") or {}).get("us_per_tensor", {})
    yield at_most("submission of a tensor", "single calls", 3, submit.get("single"), " us")
    yield at_most("submission of a tensor", "in a group of 200", 0.5, submit.get("group"), " us")


def training(figures: Figures) -> Iterator[Target]:
    rows = figures.rows("training")
    overheads = {(row["workload"], row["contender"]): row["overhead_percent"] for row in rows}
    area = "DistributedOptimizer's overhead"
    for workload, title, limit in OVERHEADS:
        own, ddp = overheads.get((workload, "hora")), overheads.get((workload, "ddp"))
        yield at_most(area, title, limit, own)
        share = None if own is None or not ddp or ddp <= 0 else max(own, 0.0) / ddp
        yield at_most(area, f"{title}, by DDP's", 0.25, share, "x")
    area = "initialised but idle"
    slower = most(row["overhead_percent"] for row in pick(rows, contender="idle"))
    yield at_most(area, "local step slower by", 1, slower)
    yield at_most(area, "use of a core", 0.5, (figures.read("idle") or {}).get("worst"))


def two_hosts(figures: Figures) -> Iterator[Target]:
    for ranks in (1, 2):
        rows = pick(figures.rows("two_hosts"), op="allreduce", bytes=16 * MIB, ranks_per_host=ranks)
        times = {row["contender"]: row["p50_us"] for row in rows}
        ratio = times["hora"] / times["tcp"] if {"hora", "tcp"} <= times.keys() else None
        title = f"16 MiB, {ranks} per host, time by raw TCP's"
        yield at_most("two hosts at 1 Gbit/s", title, 1.1, ratio, "x")


PARTS: tuple[Callable[[Figures], Iterator[Target]], ...] = (
    small_allreduce,
    large_allreduce,
    small_tensors,
    training,
    two_hosts,
)
COLOURS = {"met": "green", "missed": "red", "not measured": "dim"}
HEADINGS = ("area", "what", "target", "measured", "")


def evaluate(folder: Path) -> list[Target]:
    """Compare all targets with what is in a folder."""
    figures = Figures(folder)
    return [target for part in PARTS for target in part(figures)]


def make_table(targets: list[Target]) -> Table:
    table = Table(title="targets; 2 ranks unless said otherwise")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in ("target", "measured") else "left")
    area = ""
    for target in targets:
        cells = target.cells()
        cells[0] = "" if target.area == area else target.area
        cells[-1] = f"[{COLOURS[target.verdict]}]{target.verdict}[/]"
        table.add_row(*cells)
        area = target.area
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=OUTPUT, help="default: build/bench")
    targets = evaluate(parser.parse_args().folder)
    console().print(make_table(targets))
    verdicts = [target.verdict for target in targets]
    print(", ".join(f"{verdicts.count(name)} {name}" for name in COLOURS))


if __name__ == "__main__":
    main()
