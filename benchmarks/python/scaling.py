"""How training scales over ranks, from parameter servers to ring-allreduce.

    python benchmarks/python/scaling.py

Weak scaling: each rank trains on a batch of its own, so n ranks should do n times the work of one in the
same time, where there is a core for each. The ideal is min(ranks, cores) times what one process does without
any library. Beside it stands the bus bandwidth, 2 (n-1) / n x bytes / time, of summing 16 MiB over the ranks;
for a parameter server that is sending and getting back as much. Contenders take turns, each under its own
mpirun. Writes a PNG beside the JSON file.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

import plots
from launch import OUTPUT, installed, write_json
from models import WORKLOADS
from results import bus_factor, console, median_or_none
from rich.table import Table
from trainers import LAUNCHES
from training_runs import Run, percentiles_us, train

LADDER = ("ps-async", "ps-sync", "mpi", "ddp", "horovod", "hora")
BASELINE = "independent"
EXCHANGE_BYTES = 16 << 20
QUICK_EXCHANGE_BYTES = 1 << 20


def measure(contenders: list[str], ranks: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Let the contenders take turns on one number of ranks."""
    steps = options.steps or WORKLOADS[options.workload].steps
    runs: dict[str, list[Run]] = {name: [] for name in contenders}
    arguments = ("--exchange-bytes", str(options.exchange_bytes), "--exchanges", str(options.exchanges))
    order = list(contenders)
    for number in range(options.rounds):
        print(f"  {ranks} ranks, round {number + 1} of {options.rounds}: {' '.join(order)}", flush=True)
        for name in order:
            runs[name].append(train(name, options.workload, ranks, steps, *arguments))
        order = order[1:] + order[:1]
    return [make_row(name, ranks, runs[name], options) for name in contenders]


def make_row(name: str, ranks: int, runs: list[Run], options: argparse.Namespace) -> dict[str, Any]:
    """Summarise the rounds of a contender."""
    exchange = percentiles_us([seconds for run in runs for seconds in run.exchange_s])
    step = percentiles_us([seconds for run in runs for seconds in run.step_s])
    bandwidth = options.exchange_bytes / exchange["p50_us"] / 1e3 * bus_factor("allreduce", ranks)
    return {
        "workload": options.workload,
        "contender": name,
        "ranks": ranks,
        **step,
        "samples_per_s": WORKLOADS[options.workload].batch * ranks / step["p50_us"] * 1e6,
        "exchange_bytes": options.exchange_bytes,
        **{f"exchange_{key}": value for key, value in exchange.items()},
        "busbw_GBps": bandwidth if ranks > 1 and name != BASELINE else None,
        "one_way_us": median_or_none(run.one_way_us for run in runs),
    }


def add_ideal(rows: list[dict[str, Any]]) -> None:
    """Add to each row what could be reached, and how much of it was."""
    alone = [row["samples_per_s"] for row in rows if row["contender"] == BASELINE and row["ranks"] == 1]
    cores = len(os.sched_getaffinity(0))
    for row in rows:
        ideal = statistics.median(alone) * min(row["ranks"], cores) if alone else None
        row["ideal_samples_per_s"] = ideal
        row["efficiency"] = row["samples_per_s"] / ideal if ideal else None


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"weak scaling, {WORKLOADS[rows[0]['workload']].title} on each rank")
    headings = ("contender", "ranks", "p10 (ms)", "step (ms)", "p90 (ms)", "samples/s", "of the ideal")
    for heading in (*headings, "sum (ms)", "busbw (GB/s)"):
        table.add_column(heading, justify="left" if heading == "contender" else "right")
    for row in sorted(rows, key=lambda row: (row["ranks"], row["samples_per_s"])):
        times = [f"{row[name] / 1e3:.2f}" for name in ("p10_us", "p50_us", "p90_us")]
        share = f"{row['efficiency']:.0%}" if row["efficiency"] else "-"
        bus = row["busbw_GBps"]
        exchange = ["", ""] if bus is None else [f"{row['exchange_p50_us'] / 1e3:.2f}", f"{bus:.2f}"]
        table.add_row(
            row["contender"], str(row["ranks"]), *times, f"{row['samples_per_s']:.0f}", share, *exchange
        )
    console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=WORKLOADS, help="default: mlp3m")
    parser.add_argument("--contenders", nargs="+", choices=LADDER, default=list(LADDER))
    parser.add_argument("--ranks", nargs="+", type=int, help="default: 1 2 4")
    parser.add_argument("--rounds", type=int, help="default: 2")
    parser.add_argument("--steps", type=int, help="in each launch; by default so many that it takes seconds")
    parser.add_argument("--quick", action="store_true", help="a small network, few steps, 1 and 2 ranks")
    parser.add_argument("--json", type=Path, default=OUTPUT / "scaling.json", help="file to write to")
    options = parser.parse_args()
    quick = options.quick
    options.workload = options.workload or ("conv" if quick else "mlp3m")
    options.rounds = options.rounds or (1 if quick else 2)
    options.steps = options.steps or (5 if quick else None)
    options.exchange_bytes = QUICK_EXCHANGE_BYTES if quick else EXCHANGE_BYTES
    options.exchanges = 3 if quick else 15
    launches = installed([LAUNCHES[name] for name in (BASELINE, *options.contenders)])
    contenders = [name for launch in launches for name in launch.contenders]
    rows: list[dict[str, Any]] = []
    for ranks in options.ranks or ((1, 2) if quick else (1, 2, 4)):
        rows += measure(contenders, ranks, options)
    add_ideal(rows)
    write_json(options.json, rows)
    show(rows)
    plots.save(plots.scaling(rows), options.json.with_suffix(".png"))


if __name__ == "__main__":
    main()
