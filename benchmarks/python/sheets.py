"""The tables of the report, as titles, headings and texts: one function for each kind of file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from figures import Figures, Rows, pick


@dataclass(frozen=True)
class Sheet:
    title: str
    headings: list[str]
    rows: list[list[str]]


def spread(row: dict[str, float], scale: float = 1.0, prefix: str = "") -> str:
    """Return a median with p10 and p90."""
    low, middle, high = (row[f"{prefix}p{percent}_us"] / scale for percent in (10, 50, 90))
    return f"{middle:.4g} [{low:.3g}, {high:.3g}]"


def size_text(size: float) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"


def latency(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.3f}"


def sweeps(figures: Figures) -> Iterator[Sheet]:
    """Return sizes by contenders."""
    for name in ("sweep_2", "sweep_4", "sweep_ops_2", "sweep_halves_2"):
        rows = figures.rows(name)
        for op, dtype in dict.fromkeys((row["op"], row["dtype"]) for row in rows):
            chosen = pick(rows, op=op, dtype=dtype)
            title = f"{op} of {dtype} from Python, {chosen[0]['ranks']} ranks, us"
            yield by_contender(title, chosen)


def by_contender(title: str, rows: Rows) -> Sheet:
    contenders = list(dict.fromkeys(row["contender"] for row in rows))
    lines = []
    for size in sorted({row["bytes"] for row in rows}):
        own = {row["contender"]: row for row in pick(rows, bytes=size)}
        times = [spread(own[name]) if name in own else "-" for name in contenders]
        first = next(iter(own.values()))
        lines.append([size_text(size), *times, latency(first["one_way_us"])])
    return Sheet(title, ["size", *contenders, "one-way"], lines)


def two_hosts(figures: Figures) -> Iterator[Sheet]:
    """Return sizes by contenders, or why there are none."""
    title = "allreduce of float32 between two hosts at 1 Gbit/s"
    rows, skipped = figures.rows("two_hosts"), figures.skipped("two_hosts")
    if skipped:
        yield Sheet(title, ["skipped, because"], [[skipped]])
    for ranks in dict.fromkeys(row["ranks_per_host"] for row in rows):
        yield by_contender(f"{title}, {ranks} per host, us", pick(rows, ranks_per_host=ranks))


def cpp_scaling(figures: Figures) -> Iterator[Sheet]:
    for ranks in (1, 2, 4):
        lines = [
            [
                row["name"].split("/")[0],
                size_text(row["bytes"]),
                *(spread(row, prefix=f"{name}_") for name in ("hora", "mpi", "memory")),
                f"{row['hora/mpi']:.2f}x",
                latency(row["one_way_us"]),
            ]
            for row in figures.cpp(f"scaling_cpp_{ranks}")
        ]
        headings = ["operation", "size", "hora", "MPI", "memory bound", "hora/MPI", "one-way"]
        if lines:
            yield Sheet(f"collectives from C++, {ranks} rank{'s' * (ranks > 1)}, us", headings, lines)


def cpp_single(figures: Figures) -> Iterator[Sheet]:
    rows = figures.cpp("cpp")
    engine = [row for row in rows if row["name"].startswith(("agreement", "engine"))]
    if engine:
        lines = [
            [row["name"], f"{row['real_time'] / 1e3:.3g}"]
            + [f"{row[key] * 1e6:.3g}" if key in row else "" for key in ("per_call", "per_rank")]
            for row in engine
        ]
        yield Sheet("agreement and engine, us", ["benchmark", "time", "per call", "per call and rank"], lines)
    kernels = [row for row in rows if row not in engine]
    if kernels:
        lines = [[row["name"], f"{row['bytes_per_second'] / 1e9:.1f}"] for row in kernels]
        yield Sheet("kernels on one core, GB/s of the operand", ["kernel", "GB/s"], lines)


def small_tensors(figures: Figures) -> Iterator[Sheet]:
    lines = [
        [
            f"{row['tensors']} x {size_text(row['bytes'])}",
            row["mode"],
            row["contender"],
            spread(row),
            f"{row['p50_us'] / row['tensors']:.2f}",
            latency(row["one_way_us"]),
        ]
        for row in figures.rows("small_tensors_2")
    ]
    headings = ["tensors", "calls", "contender", "all, us", "each, us", "one-way"]
    if lines:
        yield Sheet("many small tensors, 2 ranks", headings, lines)


def training(figures: Figures) -> Iterator[Sheet]:
    lines = [
        [
            row["network"],
            row["contender"],
            spread(row, 1e3),
            "-" if row["overhead_percent"] is None else f"{row['overhead_percent']:+.1f} %",
            latency(row["one_way_us"]),
        ]
        for row in figures.rows("training")
    ]
    headings = ["network", "contender", "step, ms", "overhead", "one-way"]
    if lines:
        yield Sheet("training steps, 2 ranks of one thread", headings, lines)


def scaling(figures: Figures) -> Iterator[Sheet]:
    lines = [
        [
            row["contender"],
            str(row["ranks"]),
            spread(row, 1e3),
            f"{row['samples_per_s']:.0f}",
            f"{row['efficiency']:.0%}" if row["efficiency"] else "-",
            f"{row['busbw_GBps']:.2f}" if row["busbw_GBps"] else "-",
            latency(row["one_way_us"]),
        ]
        for row in figures.rows("scaling")
    ]
    headings = ["contender", "ranks", "step, ms", "samples/s", "of the ideal", "bus GB/s", "one-way"]
    if lines:
        yield Sheet("weak scaling", headings, lines)


SHEETS: tuple[Callable[[Figures], Iterator[Sheet]], ...] = (
    sweeps,
    small_tensors,
    training,
    scaling,
    two_hosts,
    cpp_scaling,
    cpp_single,
)
