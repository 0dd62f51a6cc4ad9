"""Train Fashion-MNIST three ways on the same global batch, and show what a second rank brings.

One process on one core, one process on two cores, and two ranks with one thread each under mpirun run
torch_fashion_mnist.py; the figures go to build/demo/summary.json, all output of the runs to build/demo/*.log.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.status import Status
from rich.table import Table

EXAMPLE = Path(__file__).with_name("torch_fashion_mnist.py")
DEFAULT_OUTPUT = Path(__file__).parents[1] / "build" / "demo"
RUN_LIMIT_S = 150.0
TOTAL_LIMIT_S = 290.0
LEAST_ACCURACY = 0.88

# By default the threads of one process spin for each other, up to 18 ms. Where something else wants a core,
# that makes two threads many times slower than one; spinning briefly costs nothing where the cores are free.
BRIEF_SPINNING = {"GOMP_SPINCOUNT": "2000"}


@dataclass(frozen=True)
class Run:
    """One way to train, and how many cores it may use."""

    title: str
    log: str
    ranks: int
    threads: int
    cores: int


RUNS = (
    Run("1 process, 1 core", "one-core", ranks=1, threads=1, cores=1),
    Run("1 process, 2 cores", "two-cores", ranks=1, threads=2, cores=2),
    Run("2 ranks of 1 thread", "two-ranks", ranks=2, threads=1, cores=2),
)


def command(run: Run, options: argparse.Namespace, result: Path) -> list[str]:
    """Return the command line of a run, bound to its cores."""
    cores = sorted(os.sched_getaffinity(0))[: run.cores]
    words = ["taskset", "--cpu-list", ",".join(map(str, cores))]
    if run.ranks > 1:
        words += ["mpirun", "-np", str(run.ranks), "--bind-to", "none", "--oversubscribe"]
        words += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    words += [sys.executable, str(EXAMPLE), "--no-progress", "--json", str(result)]
    words += ["--threads", str(run.threads), "--epochs", str(options.epochs)]
    words += ["--batch-size", str(options.batch_size)]
    return words + (["--images", str(options.images)] if options.images else [])


def train(run: Run, options: argparse.Namespace, limit_s: float, status: Status) -> dict[str, Any]:
    """Run to the end, its output in a log, and return what it measured."""
    result, log = options.output / f"{run.log}.json", options.output / f"{run.log}.log"
    result.unlink(missing_ok=True)
    with (
        log.open("w") as file,
        subprocess.Popen(
            command(run, options, result),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(run.threads), **BRIEF_SPINNING},
        ) as process,
    ):
        # SIGTERM lets mpirun end its ranks; what ignores it is killed.
        timers = [threading.Timer(limit_s, process.terminate), threading.Timer(limit_s + 5, process.kill)]
        for timer in timers:
            timer.start()
        try:
            for line in process.stdout or ():
                file.write(line)
                file.flush()
                if line.startswith("epoch "):
                    status.update(f"{run.title}: {line.strip()}")
        except BaseException:
            process.terminate()
            raise
        finally:
            code = process.wait()
            for timer in timers:
                timer.cancel()
    if code or not result.exists():
        sys.exit(
            f"{run.title}: failed (exit status {code}, limit {limit_s:.0f} s), end of {log}:\n" + tail(log)
        )
    measured: dict[str, Any] = json.loads(result.read_text())
    return measured


def tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def make_table(results: list[dict[str, Any]], options: argparse.Namespace) -> Table:
    title = f"Fashion-MNIST, global batch {options.batch_size} in every run, {options.epochs} epochs"
    table = Table(title=title, box=box.ROUNDED)
    table.add_column("run", no_wrap=True)
    for heading in ("images/s", "s/epoch", "speed-up", "test\naccuracy", "weights\nbit-equal"):
        table.add_column(heading, justify="right", no_wrap=True)
    for run, result in zip(RUNS, results, strict=True):
        equal = "yes" if result["weights_equal"] else "NO"
        table.add_row(
            run.title,
            f"{result['images_per_second']:.0f}",
            f"{result['seconds_per_epoch']:.2f}",
            f"{result['images_per_second'] / results[0]['images_per_second']:.2f}",
            f"{result['test_accuracy']:.4f}",
            equal if run.ranks > 1 else "-",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128, help="images per step of all ranks together")
    parser.add_argument(
        "--images", type=int, help="use only so many images of each part, whatever the accuracy"
    )
    parser.add_argument(
        "--output", type=Path, default=DEFAULT_OUTPUT, help="folder for the summary and the logs"
    )
    options = parser.parse_args()
    for program in ("taskset", "mpirun"):
        if not shutil.which(program):
            sys.exit(f"{program} is not on PATH: install Debian's packages util-linux and openmpi-bin")
    options.output.mkdir(parents=True, exist_ok=True)
    console, results = Console(), []
    until = time.monotonic() + TOTAL_LIMIT_S
    for run in RUNS:
        start = time.monotonic()
        with console.status(f"{run.title}: starting") as status:
            results.append(train(run, options, min(RUN_LIMIT_S, until - start), status))
        console.print(
            f"[demo] {run.title:20} {time.monotonic() - start:5.1f} s", markup=False, highlight=False
        )
    speedup = results[-1]["images_per_second"] / results[0]["images_per_second"]
    (options.output / "summary.json").write_text(
        json.dumps({"runs": results, "speedup": speedup}, indent=2) + "\n"
    )
    console.print(make_table(results, options))
    if not options.images and min(result["test_accuracy"] for result in results) < LEAST_ACCURACY:
        sys.exit(f"a run ended below a test accuracy of {LEAST_ACCURACY}")


if __name__ == "__main__":
    main()
