"""Measures a selection of everything in about ten minutes; ``make bench`` runs it.

Figures go to build/bench/*.json, tables and plots to build/bench/report.html; the table of targets ends the
output. A measurement that fails is named, and the others go on.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import report
import targets
from figures import Figures
from launch import KEEPMALLOC, ONE_THREAD, OUTPUT, ROOT, mpirun
from results import console
from rich.table import Table
from sheets import cpp_scaling, cpp_single

HERE = Path(__file__).parent
CPP = ROOT / "build" / "dev" / "benchmarks" / "cpp"
ALLREDUCE_SIZES = ("4", "256", "1K", "16K", "64K", "256K", "1M", "4M", "16M", "64M", "256M")
FOUR_RANK_SIZES = ("4", "256", "1K", "16K", "256K", "1M", "4M", "16M")
OTHER_SIZES = ("4", "1K", "64K", "1M", "16M")
TOGETHER = ("--contenders", "hora", "mpi", "gloo", "memory")


@dataclass(frozen=True)
class Measurement:
    """A program, and about how long it takes."""

    title: str
    seconds: float
    command: list[str]
    log: Path | None = None  # for what it prints, where that is not meant to be read


def script(name: str, output: Path, *arguments: str) -> list[str]:
    """Return the command of a Python benchmark; those that take turns start their ranks themselves."""
    return [sys.executable, str(HERE / f"{name}.py"), "--json", str(output), *arguments]


def sweeps(folder: Path, quick: bool) -> Iterator[Measurement]:
    """Return the sweeps over sizes: title, file, duration, what is measured, and how thoroughly."""
    selection: list[tuple[str, str, float, list[str], list[str]]] = [
        (
            *("allreduce, 2 ranks", "sweep_2", 92.0),
            ["--ops", "allreduce"],
            ["--sizes", *ALLREDUCE_SIZES, "--budget", "30"],
        ),
        (
            *("allreduce of halves, 2 ranks", "sweep_halves_2", 20.0),
            ["--ops", "allreduce", "--dtypes", "float32", "float16", "bfloat16", "--contenders", "hora"],
            ["--sizes", "1M", "4M", "16M", "--budget", "15", "--rounds", "2"],
        ),
        (
            *("other collectives, 2 ranks", "sweep_ops_2", 25.0),
            ["--ops", "broadcast", "allgather", "alltoall", "reducescatter", *TOGETHER],
            ["--sizes", *OTHER_SIZES, "--budget", "20", "--rounds", "1"],
        ),
        (
            *("allreduce, 4 ranks", "sweep_4", 32.0),
            ["--ops", "allreduce", "--ranks", "4", *TOGETHER],
            ["--sizes", *FOUR_RANK_SIZES, "--budget", "15", "--rounds", "2"],
        ),
    ]
    for title, file, seconds, what, effort in selection:
        arguments = [*what, *(["--quick"] if quick else effort)]
        yield Measurement(title, seconds, script("sweep", folder / f"{file}.json", *arguments))


def select(folder: Path, quick: bool) -> Iterator[Measurement]:
    """Return what is measured."""

    def python(name: str, file: str, *effort: str) -> list[str]:
        return script(name, folder / f"{file}.json", *(["--quick"] if quick else effort))

    def cpp(program: str, file: str) -> list[str]:
        return [str(CPP / program), f"--benchmark_out={folder / file}.json"]

    yield Measurement("idle ranks", 9.0, [*mpirun(2), *python("idle", "idle")])
    yield Measurement("submissions from Python", 10.0, [*mpirun(2), *python("submit", "submit")])
    yield from sweeps(folder, quick)
    small = python("small_tensors", "small_tensors_2", "--rounds", "2", "--turns", "15")
    yield Measurement("many small tensors", 28.0, small)
    yield Measurement("training steps", 190.0, python("training", "training", "--rounds", "2"))
    yield Measurement("scaling", 90.0, python("scaling", "scaling", "--rounds", "1", "--steps", "30"))
    two_hosts = python("two_hosts", "two_hosts", "--budget", "25")
    yield Measurement("two hosts at 1 Gbit/s", 28.0, two_hosts)
    for ranks in (1, 2, 4):
        command = [*mpirun(ranks), *cpp("scaling", f"scaling_cpp_{ranks}"), *(["--quick"] if quick else [])]
        title = f"collectives from C++, {ranks} rank{'s' * (ranks > 1)}"
        yield Measurement(title, 10.0 * ranks, command, folder / f"scaling_cpp_{ranks}.log")
    least_time = f"--benchmark_min_time={0.01 if quick else 0.1}"
    command = [*cpp("hora_benchmarks", "cpp"), least_time]
    yield Measurement("agreement, engine and kernels", 15.0, command, folder / "cpp.log")


def run(measurement: Measurement, environment: dict[str, str]) -> bool:
    """Run one measurement, which prints for itself unless it has a log; say whether it succeeded."""
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(measurement.log.open("w")) if measurement.log else None
        process = subprocess.Popen(measurement.command, env=environment, stdout=log, stderr=log)
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
        place = f"; its output: {measurement.log}" if measurement.log else ""
        print(f"{measurement.title}: failed or took too long (exit status {code}){place}", flush=True)
    return code == 0


def show_cpp(folder: Path) -> None:
    """Print what the programs with a log measured; kernels are in the report only."""
    figures = Figures(folder)
    for sheet in (*cpp_scaling(figures), *itertools.islice(cpp_single(figures), 1)):
        table = Table(title=sheet.title)
        for heading in sheet.headings:
            table.add_column(heading, justify="left" if heading == sheet.headings[0] else "right")
        for row in sheet.rows:
            table.add_row(*row)
        console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the figures")
    parser.add_argument("--only", default="", help="measure what has this text in its title")
    parser.add_argument("--quick", action="store_true", help="see that everything works")
    options = parser.parse_args()
    if not (CPP / "scaling").exists():
        sys.exit("the C++ benchmarks are not built; run: scripts/setup.sh bench")
    options.output.mkdir(parents=True, exist_ok=True)
    selection = [each for each in select(options.output, options.quick) if options.only in each.title]
    start, failed = time.monotonic(), []
    environment = {**os.environ, **KEEPMALLOC, **ONE_THREAD}
    for number, measurement in enumerate(selection):
        left = sum(each.seconds for each in selection[number:]) * (0.2 if options.quick else 1.0)
        place = f"[{number + 1}/{len(selection)}]"
        print(f"\n== {place} {measurement.title}; about {left:.0f} s left", flush=True)
        began = time.monotonic()
        if not run(measurement, environment):
            failed.append(measurement.title)
        print(f"took {time.monotonic() - began:.0f} s, {measurement.seconds:.0f} s expected")
    show_cpp(options.output)
    print(f"\n{time.monotonic() - start:.0f} s, figures in {options.output}")
    print(f"report: {report.render(options.output)}")
    console().print(targets.make_table(targets.evaluate(options.output)))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
