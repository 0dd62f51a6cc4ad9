"""The plots of the report, drawn with matplotlib where requirements/bench.txt is installed, else left out."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

try:
    from matplotlib import rcParams
    from matplotlib.figure import Figure
except ImportError:
    Figure = None

Rows = list[dict[str, Any]]
COLOURS = {
    "hora": "#c2410c",
    "hora-own": "#ea580c",
    "mpi": "#1d4ed8",
    "mpi-no-cma": "#60a5fa",
    "gloo": "#15803d",
    "ddp": "#15803d",
    "horovod": "#7e22ce",
    "deepspeed": "#0e7490",
    "memory": "#9ca3af",
    "independent": "#9ca3af",
    "idle": "#fdba74",
    "ps-sync": "#a16207",
    "ps-async": "#facc15",
}


def figure(columns: int, height: float = 3.4, rows: int = 1) -> Any:
    """Return an empty figure with some plots side by side, or None without matplotlib."""
    if Figure is None:
        return None
    rcParams["svg.fonttype"], rcParams["font.size"] = "none", 8
    drawn = Figure(figsize=(4.4 * columns, height * rows), layout="constrained")
    drawn.subplots(rows, columns)
    return drawn


def line(axes: Any, rows: Iterable[dict[str, Any]], x: str, y: Callable[[dict[str, Any]], float]) -> None:
    """Draw one line for each contender."""
    groups: dict[str, Rows] = {}
    for row in rows:
        groups.setdefault(row["contender"], []).append(row)
    for name, own in groups.items():
        own.sort(key=lambda row: float(row[x]))
        axes.plot([row[x] for row in own], [y(row) for row in own], ".-", label=name, color=COLOURS.get(name))
    axes.grid(alpha=0.3)
    if groups:
        axes.legend(fontsize=7)


def sweep(rows: Rows, op: str, ranks: int) -> Any:
    """Time and bus bandwidth of one operation by size."""
    drawn = figure(2)
    if drawn is None:
        return None
    chosen = [row for row in rows if (row["op"], row["ranks"], row["dtype"]) == (op, ranks, "float32")]
    time, bandwidth = drawn.axes
    line(time, chosen, "bytes", lambda row: float(row["p50_us"]))
    line(
        bandwidth,
        [row for row in chosen if row["contender"] != "memory"],
        "bytes",
        lambda row: float(row["busbw_GBps"]),
    )
    for axes, title in ((time, "time (us)"), (bandwidth, "bus bandwidth (GB/s)")):
        axes.set(xscale="log", xlabel="bytes", title=f"{op}, {ranks} ranks: {title}")
    time.set_yscale("log")
    return drawn


def scaling(rows: Rows) -> Any:
    """Samples per second by ranks below the ideal, and bus bandwidth."""
    drawn = figure(2, height=4.0)
    if drawn is None:
        return None
    steps, bandwidth = drawn.axes
    ideal = sorted({(row["ranks"], row["ideal_samples_per_s"]) for row in rows if row["ideal_samples_per_s"]})
    steps.plot([ranks for ranks, _ in ideal], [value for _, value in ideal], "k--", label="ideal")
    line(steps, rows, "ranks", lambda row: float(row["samples_per_s"]))
    line(bandwidth, [row for row in rows if row["busbw_GBps"]], "ranks", lambda row: float(row["busbw_GBps"]))
    steps.set(title="weak scaling: samples per second", xlabel="ranks", ylim=(0, None))
    bandwidth.set(title="summing over the ranks: bus bandwidth (GB/s)", xlabel="ranks", ylim=(0, None))
    for axes in drawn.axes:
        axes.set_xticks(sorted({row["ranks"] for row in rows}))
    return drawn


def training(rows: Rows) -> Any:
    """Overhead over independent processes, as bars."""
    compared = [
        row for row in rows if row["contender"] != "independent" and row["overhead_percent"] is not None
    ]
    drawn = figure(1) if compared else None
    if drawn is None:
        return None
    (axes,) = drawn.axes
    workloads = list(dict.fromkeys(row["workload"] for row in compared))
    names = list(dict.fromkeys(row["contender"] for row in compared))
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        values = {row["workload"]: row["overhead_percent"] for row in compared if row["contender"] == name}
        places = [at + number * width for at, workload in enumerate(workloads) if workload in values]
        axes.bar(places, list(values.values()), width, label=name, color=COLOURS.get(name))
    axes.set_xticks([at + 0.4 - width / 2 for at in range(len(workloads))], workloads)
    axes.set(title="overhead of a training step over independent processes (%)")
    axes.legend(fontsize=7)
    return drawn


def save(drawn: Any, path: Path) -> None:
    """Write a PNG, or say why not."""
    if drawn is None:
        print("# no plot: matplotlib is not installed; install it with: scripts/setup.sh bench")
        return
    drawn.savefig(path, dpi=150)
    print(f"plot: {path}")


def svg(drawn: Any) -> str:
    """Return a figure to be put into a page; nothing for None."""
    if drawn is None:
        return ""
    text = io.StringIO()
    drawn.savefig(text, format="svg", metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", text.getvalue(), flags=re.DOTALL)
