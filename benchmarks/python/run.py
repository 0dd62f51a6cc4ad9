"""Measures a selection of everything in about ten minutes; ``make bench`` runs it.

Figures go to build/bench/*.json, tables and plots to build/bench/report.html; the table of targets ends the
output. A measurement that fails is named, and the others go on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import report
import targets
from launch import KEEPMALLOC, OUTPUT, ROOT, mpirun
from results import console

HERE = Path(__file__).parent
CPP = ROOT / "build" / "dev" / "benchmarks" / "cpp"
ALLREDUCE_SIZES = ("4", "64", "256", "1K", "16K", "64K", "256K", "1M", "4M", "16M", "64M", "256M")
FOUR_RANK_SIZES = ("4", "256", "1K", "16K", "256K", "1M", "4M", "16M")
OTHER_SIZES = ("4", "1K", "64K", "1M", "16M")
TOGETHER = ("--contenders", "hora", "mpi", "gloo", "memory")


@dataclass(frozen=True)
class Measurement:
    """A program, and about how long it takes."""

    title: str
    seconds: float
    command: list[str]


def script(name: str, output: Path, *arguments: str) -> list[str]:
    """Return the command of a Python benchmark; those that take turns start their ranks themselves."""
    return [sys.executable, str(HERE / f"{name}.py"), "--json", str(output), *arguments]


def select(folder: Path, quick: bool) -> Iterator[Measurement]:
    """Return what is measured."""
    short = ("--quick",) if quick else ()

    def sweep(name: str, *arguments: str) -> list[str]:
        return script("sweep", folder / f"{name}.json", *(short or arguments))

    def training(*arguments: str) -> list[str]:
        return script("training", folder / "training.json", *(short or arguments))

    def cpp(program: str, output: str) -> list[str]:
        return [str(CPP / program), f"--benchmark_out={folder / output}", "--benchmark_counters_tabular=true"]

    idle = script("idle", folder / "idle.json", *(("--seconds", "1") if quick else ()))
    yield Measurement("idle ranks", 9, [*mpirun(2), *idle])
    submit = script("submit", folder / "submit.json", *(("--rounds", "10") if quick else ()))
    yield Measurement("submissions from Python", 10, [*mpirun(2), *submit])
    arguments = ("--ops", "allreduce", "--sizes", *ALLREDUCE_SIZES, "--budget", "80")
    yield Measurement("allreduce, 2 ranks", 110, sweep("sweep_2", *arguments))
    halves = (
        "--dtypes",
        "float32",
        "float16",
        "bfloat16",
        "--contenders",
        "hora",
        "--sizes",
        "1M",
        "4M",
        "16M",
    )
    arguments = ("--ops", "allreduce", *halves, "--budget", "15", "--rounds", "2")
    yield Measurement("halves, 2 ranks", 25, sweep("sweep_halves_2", *arguments))
    arguments = ("--ops", "broadcast", "allgather", "alltoall", "reducescatter", "--sizes", *OTHER_SIZES)
    arguments += (*TOGETHER, "--rounds", "1", "--budget", "45")
    yield Measurement("other collectives, 2 ranks", 50, sweep("sweep_ops_2", *arguments))
    arguments = ("--ranks", "4", "--ops", "allreduce", "--sizes", *FOUR_RANK_SIZES, *TOGETHER)
    arguments += ("--rounds", "2", "--budget", "30")
    yield Measurement("allreduce, 4 ranks", 45, sweep("sweep_4", *arguments))
    small = script(
        "small_tensors", folder / "small_tensors_2.json", *(short or ("--rounds", "2", "--turns", "20"))
    )
    yield Measurement("many small tensors", 30, small)
    yield Measurement("training steps", 180, training("--rounds", "2"))
    scaling = script("scaling", folder / "scaling.json", *(short or ("--rounds", "1")))
    yield Measurement("scaling", 90, scaling)
    for ranks in (1, 2, 4):
        command = [*mpirun(ranks), *cpp("scaling", f"scaling_cpp_{ranks}.json"), *short]
        yield Measurement(f"collectives from C++, {ranks} ranks", 10 * ranks, command)
    least_time = "0.01" if quick else "0.1"
    command = [*cpp("hora_benchmarks", "cpp.json"), f"--benchmark_min_time={least_time}"]
    yield Measurement("agreement, engine and kernels", 15, command)


def run(measurement: Measurement, environment: dict[str, str]) -> bool:
    """Run one measurement, which prints for itself; say whether it succeeded."""
    process = subprocess.Popen(measurement.command, env=environment)
    try:
        code = process.wait(4 * measurement.seconds + 60)
    except subprocess.TimeoutExpired:
        process.terminate()  # mpirun ends its ranks
        try:
            code = process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    if code:
        print(f"{measurement.title}: failed or took too long (exit status {code})", flush=True)
    return code == 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the figures")
    parser.add_argument("--only", default="", help="measure what has this text in its title")
    parser.add_argument(
        "--quick", action="store_true", help="see that everything works, in about two minutes"
    )
    options = parser.parse_args()
    if not (CPP / "scaling").exists():
        sys.exit("the C++ benchmarks are not built; run: scripts/setup.sh bench")
    options.output.mkdir(parents=True, exist_ok=True)
    selection = [each for each in select(options.output, options.quick) if options.only in each.title]
    start, failed = time.monotonic(), []
    environment = {**os.environ, **KEEPMALLOC, "OMP_NUM_THREADS": "1"}
    for number, measurement in enumerate(selection):
        left = sum(each.seconds for each in selection[number:]) * (0.2 if options.quick else 1.0)
        print(
            f"\n== [{number + 1}/{len(selection)}] {measurement.title}; about {left:.0f} s left", flush=True
        )
        if not run(measurement, environment):
            failed.append(measurement.title)
    print(f"\n{time.monotonic() - start:.0f} s, figures in {options.output}")
    print(f"report: {report.render(options.output)}")
    console().print(targets.make_table(targets.evaluate(options.output)))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
