"""Draws docs/images/agreement.png: agreement as `agreement_scale` simulates it, and a model of allreduce.

Usage: ``build/dev/benchmarks/cpp/agreement/agreement_scale --json build/bench/agreement_scale.json``, then
``python benchmarks/python/scale_model.py``. What the curves mean is in docs/scaling.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plots
from launch import OUTPUT

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "agreement.png"
MOST_RANKS = 100_000


@dataclass(frozen=True)
class Machine:
    """Hosts of one kind. Latencies in seconds, bandwidths in bytes per second."""

    ranks_per_host: int = 8
    latency_inside: float = 0.5e-6
    latency_between: float = 5e-6
    bandwidth_inside: float = 10e9  # of one rank copying to or from shared memory
    bandwidth_between: float = 10e9  # of a host's link, each way

    def hosts(self, ranks: int) -> int:
        return math.ceil(ranks / self.ranks_per_host)


def ring(size: float, ranks: int, machine: Machine) -> float:
    """Return seconds of one ring of all ranks; each of its steps waits for the edges between hosts."""
    latency = machine.latency_between if machine.hosts(ranks) > 1 else machine.latency_inside
    bandwidth = min(machine.bandwidth_between, machine.bandwidth_inside)
    return 2 * (ranks - 1) * (latency + size / ranks / bandwidth)


def two_levels(size: float, ranks: int, machine: Machine, latency: float, transfer: float) -> float:
    """Return seconds of sums inside hosts around an exchange between them that has this latency and transfer.

    Every rank copies in and out of shared memory, block by block, while other blocks are between hosts.
    """
    if min(ranks, machine.ranks_per_host) == 1:
        return latency + transfer
    copies = 2 * size / machine.bandwidth_inside
    return 2 * machine.latency_inside + latency + max(copies, transfer)


def two_level_ring(size: float, ranks: int, machine: Machine) -> float:
    """Return seconds with a ring of hosts."""
    hosts = machine.hosts(ranks)
    steps = 2 * (hosts - 1)
    transfer = steps * size / hosts / machine.bandwidth_between
    return two_levels(size, ranks, machine, steps * machine.latency_between, transfer)


def two_level_doubling(size: float, ranks: int, machine: Machine) -> float:
    """Return seconds with recursive doubling of hosts, which is for short tensors."""
    steps = math.ceil(math.log2(machine.hosts(ranks)))
    transfer = steps * size / machine.bandwidth_between
    return two_levels(size, ranks, machine, steps * machine.latency_between, transfer)


def two_level_tree(size: float, ranks: int, machine: Machine) -> float:
    """Return seconds with a pipelined double binary tree of hosts."""
    depth = math.ceil(math.log2(machine.hosts(ranks)))
    transfer = 2 * size / machine.bandwidth_between if depth else 0.0
    return two_levels(size, ranks, machine, 2 * depth * machine.latency_between, transfer)


ALGORITHMS: dict[str, Callable[[float, int, Machine], float]] = {
    "one ring": ring,
    "two levels, ring": two_level_ring,
    "two levels, doubling": two_level_doubling,
    "two levels, tree (not in hora)": two_level_tree,
}


def draw_agreement(axes: Any, rows: list[dict[str, Any]]) -> None:
    ranks = [row["ranks"] for row in rows]
    for label, field, style in (
        ("hora", "hora_steady_time_us", "-"),
        ("flat, cycles of 1 ms", "flat_steady_time_us", "-"),
        ("flat, first step", "flat_cold_time_us", "--"),
    ):
        axes.plot(ranks, [row[field] for row in rows], style, marker=".", label=label)
    axes.set(title="agreement on a wave of tensors (us)", yscale="log")


def draw_fan_in(axes: Any, rows: list[dict[str, Any]]) -> None:
    ranks = [row["ranks"] for row in rows]
    for label, field, style in (
        ("hora", "hora_steady_fan_in", "-"),
        ("flat, first step", "flat_cold_fan_in", "--"),
    ):
        axes.plot(ranks, [row[field] for row in rows], style, marker=".", label=label)
    axes.set(title="messages at the busiest rank for a wave", yscale="log")


def draw_allreduce(axes: Any, size: int, title: str) -> None:
    machine = Machine()
    ranks = [2**power for power in range(1, int(math.log2(MOST_RANKS)) + 1)] + [MOST_RANKS]
    for name, seconds in ALGORITHMS.items():
        axes.plot(ranks, [1e3 * seconds(size, count, machine) for count in ranks], label=name)
    axes.set(title=f"model: allreduce of {title} (ms)", yscale="log")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, default=OUTPUT / "agreement_scale.json", help="file to read")
    parser.add_argument("--output", type=Path, default=IMAGE, help="file to write to")
    options = parser.parse_args()
    rows = json.loads(options.json.read_text())
    drawn = plots.figure(2, rows=2)
    if drawn is not None:
        agreement, fan_in, short, long = drawn.axes
        draw_agreement(agreement, rows)
        draw_fan_in(fan_in, rows)
        draw_allreduce(short, 16 << 10, "16 KiB")
        draw_allreduce(long, 64 << 20, "64 MiB")
        for axes in drawn.axes:
            axes.set(xscale="log", xlabel="ranks")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=7)
    plots.save(drawn, options.output)


if __name__ == "__main__":
    main()
