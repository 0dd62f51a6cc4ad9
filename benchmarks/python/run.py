"""Measures everything that has a target, in under three minutes; ``make bench`` runs it.

The idle ranks, submissions from Python, the sweep against MPI and Gloo, and the reduction kernels; the
figures go to build/bench/*.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "build" / "bench"
PYTHON_BENCHMARKS = Path(__file__).parent / "python"
KERNELS = ROOT / "build" / "dev" / "benchmarks" / "cpp" / "hora_benchmarks"
KIB, MIB = 1 << 10, 1 << 20
SPEED_TARGETS = ((KIB, 3.0), (16 * MIB, 3.0))  # bytes of an allreduce, how many times faster than Gloo
IDLE_TARGET_PERCENT = 3.0
SUBMIT_TARGETS_US = {  # per tensor
    "single": ("submitting a tensor", 3.0),
    "group": ("  of a group of 200, DLPack's C table", 0.5),
    "group_attributes": ("  of a group of 200, attributes", 1.0),
}

# "keepmalloc", for every contender of the sweep: memory once obtained is never given back, so that page
# faults, which are very expensive on some virtual machines, are not taken for the cost of an algorithm.
KEEPMALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_ARENA_MAX": "1"}


def mpirun(ranks: int) -> list[str]:
    """Return the launcher's part of a command; ranks are not bound, for each has more than one thread."""
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "-np", str(ranks), "--bind-to", "none", "--oversubscribe", *as_root, sys.executable]


def run(title: str, command: list[str], limit_s: float, malloc: dict[str, str] | None = None) -> None:
    """Run one measurement, which prints for itself, or end the program."""
    print(f"\n== {title}", flush=True)
    environment = {**os.environ, **(malloc or {}), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment)
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.terminate()  # mpirun ends its ranks
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
        sys.exit(f"{title}: not done after {limit_s:.0f} s")
    if code:
        sys.exit(f"{title}: failed with exit status {code}")


def read(name: str) -> Any:
    return json.loads((OUTPUT / name).read_text())


def speed_against_gloo(rows: list[dict[str, Any]], size: int) -> float | None:
    """Return how many times faster than Gloo's hora's allreduce was in the same run."""
    medians = {
        row["contender"]: row["p50_us"] for row in rows if row["op"] == "allreduce" and row["bytes"] == size
    }
    return medians["gloo"] / medians["hora"] if {"gloo", "hora"} <= medians.keys() else None


def target_table() -> Table:
    """Compare what was measured with what must be reached."""
    table = Table(title="targets, 2 ranks")
    for heading in ("what", "measured", "target", ""):
        table.add_column(heading)
    rows = read("sweep.json")
    for size, target in SPEED_TARGETS:
        speed = speed_against_gloo(rows, size)
        title = f"allreduce of {size // MIB} MiB" if size >= MIB else f"allreduce of {size // KIB} KiB"
        measured = "not measured" if speed is None else f"{speed:.1f}x Gloo"
        table.add_row(
            title, measured, f"at least {target:.0f}x Gloo", verdict(speed is not None and speed >= target)
        )
    worst = read("idle.json")["worst"]
    met = verdict(worst <= IDLE_TARGET_PERCENT)
    table.add_row("idle rank", f"{worst:.2f} % of a core", f"at most {IDLE_TARGET_PERCENT:.0f} %", met)
    submit = read("submit.json")["us_per_tensor"]
    for key, (title, limit) in SUBMIT_TARGETS_US.items():
        value = submit[key]
        table.add_row(title, f"{value:.2f} us", f"at most {limit:.1f} us", verdict(value <= limit))
    return table


def verdict(met: bool) -> str:
    return "[green]met[/green]" if met else "[red]missed[/red]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=float, default=100.0, help="seconds for the sweep")
    parser.add_argument("--kernels", type=Path, default=KERNELS, help="program of the C++ benchmarks")
    options = parser.parse_args()
    if not options.kernels.exists():
        sys.exit(f"{options.kernels} is not built; run: scripts/setup.sh bench")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    idle = [str(PYTHON_BENCHMARKS / "idle.py"), "--json", str(OUTPUT / "idle.json")]
    run("idle ranks", [*mpirun(2), *idle], limit_s=30)
    submit = [str(PYTHON_BENCHMARKS / "submit.py"), "--json", str(OUTPUT / "submit.json")]
    run("submissions from Python", [*mpirun(2), *submit], limit_s=40)
    sweep = [str(PYTHON_BENCHMARKS / "sweep.py"), "--json", str(OUTPUT / "sweep.json")]
    run("sweep", [*mpirun(2), *sweep, "--budget", str(options.budget)], options.budget + 40, KEEPMALLOC)
    kernels = [f"--benchmark_out={OUTPUT / 'kernels.json'}", "--benchmark_min_time=0.1"]
    run("reduction kernels", [str(options.kernels), *kernels], 60, KEEPMALLOC)
    print(f"\n{time.monotonic() - start:.0f} s, figures in {OUTPUT.relative_to(ROOT)}")
    Console().print(target_table())


if __name__ == "__main__":
    main()
