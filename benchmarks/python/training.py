"""Times training steps with several libraries, and without any.

    python benchmarks/python/training.py
    python benchmarks/python/training.py --framework keras

Every contender runs under an mpirun of its own, for the threads of one library slow the others down; they
take turns for several rounds. Each has one thread per rank. The overhead is that over independent
processes, as many on the same machine at the same time that do not communicate: local steps in a process with
an initialised library can be slowed down by it already. "idle" is such a process of hora; it takes part where
steps are short, for what it could cost is lost in the spread of long ones.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from launch import installed, write_json
from models import WORKLOADS
from results import console, median_or_none
from rich.table import Table
from trainers import LAUNCHES
from training_runs import Run, percentiles_us, train

CONTENDERS = {
    "torch": ("independent", "hora", "ddp", "horovod", "idle"),
    "keras": ("independent", "hora", "idle"),
}
DEFAULT_WORKLOADS = {"torch": ("conv", "tensors100", "mlp-b32", "mlp-b256"), "keras": ("tensors100",)}
SHORT_WORKLOADS = ("conv", "tensors100")
QUICK_STEPS = 5


def measure(contenders: list[str], workload: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Let the contenders take turns on one network."""
    steps = options.steps or WORKLOADS[workload].steps
    runs: dict[str, list[Run]] = {name: [] for name in contenders}
    order = list(contenders)
    for number in range(options.rounds):
        print(f"  {workload}, round {number + 1} of {options.rounds}: {' '.join(order)}", flush=True)
        for name in order:
            runs[name].append(train(name, workload, options.ranks, steps, framework=options.framework))
        order = order[1:] + order[:1]
    return [make_row(name, workload, options.ranks, runs) for name in contenders]


def make_row(name: str, workload: str, ranks: int, runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Summarise a contender; its overhead is the median over rounds, in each against its neighbour."""
    overheads = [
        100 * (own.step_us / independent.step_us - 1)
        for own, independent in zip(runs[name], runs.get("independent", []), strict=False)
    ]
    return {
        "workload": workload,
        "network": WORKLOADS[workload].title,
        "contender": name,
        "ranks": ranks,
        **percentiles_us([seconds for run in runs[name] for seconds in run.step_s]),
        "overhead_percent": statistics.median(overheads) if overheads else None,
        "overheads_percent": overheads,
        "one_way_us": median_or_none(run.one_way_us for run in runs[name]),
    }


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"training steps, {rows[0]['ranks']} ranks of one thread")
    for heading in ("network", "contender", "p10 (ms)", "step (ms)", "p90 (ms)", "overhead", "of the rounds"):
        table.add_column(heading, justify="left" if heading in ("network", "contender") else "right")
    for row in rows:
        times = [f"{row[name] / 1e3:.2f}" for name in ("p10_us", "p50_us", "p90_us")]
        compared = row["contender"] != "independent" and row["overhead_percent"] is not None
        overhead = f"{row['overhead_percent']:+.1f} %" if compared else ""
        spread = " ".join(f"{value:+.0f}" for value in row["overheads_percent"]) if compared else ""
        table.add_row(row["network"], row["contender"], *times, overhead, spread)
    console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--framework", choices=CONTENDERS, default="torch")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS)
    parser.add_argument("--contenders", nargs="+", choices=LAUNCHES)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="default: 3")
    parser.add_argument("--steps", type=int, help="in each launch; by default so many that it takes seconds")
    parser.add_argument("--quick", action="store_true", help="small networks, one round of a few steps")
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.steps = options.steps or (QUICK_STEPS if options.quick else None)
    names = options.contenders or CONTENDERS[options.framework]
    launches = installed([LAUNCHES[name] for name in names])
    contenders = [name for launch in launches for name in launch.contenders]
    rows: list[dict[str, Any]] = []
    usual = DEFAULT_WORKLOADS[options.framework]
    short = [workload for workload in usual if workload in SHORT_WORKLOADS]
    for workload in options.workloads or (short if options.quick else usual):
        present = [name for name in contenders if name != "idle" or workload in SHORT_WORKLOADS]
        rows += measure(present, workload, options)
        write_json(options.json, rows)
    show(rows)


if __name__ == "__main__":
    main()
