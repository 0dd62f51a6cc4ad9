"""Starts the ranks of one contender that train, and returns what the slower ones needed."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from launch import mpirun, run, twice
from shared_page import PAGE_BYTES
from trainers import LAUNCHES, SERVED

WORKERS = {
    framework: Path(__file__).with_name(name)
    for framework, name in {"torch": "training_worker.py", "keras": "keras_worker.py"}.items()
}
LIMIT_S = 180.0


@dataclass(frozen=True)
class Run:
    """The times of the rank that was slowest in the median."""

    step_s: list[float]
    exchange_s: list[float]
    one_way_us: float | None

    @property
    def step_us(self) -> float:
        return statistics.median(self.step_s) * 1e6


def train(
    contender: str, workload: str, ranks: int, steps: int, *arguments: str, framework: str = "torch"
) -> Run:
    """Train on `ranks` ranks; a parameter server comes in addition."""
    words = ["--contender", contender, "--workload", workload, "--steps", str(steps), *arguments]
    command = [*mpirun(ranks + (contender in SERVED)), sys.executable, str(WORKERS[framework]), *words]
    results = twice(partial(launch, command, contender, ranks))
    slowest = {key: max((each[key] for each in results), key=median) for key in ("step_s", "exchange_s")}
    return Run(**slowest, one_way_us=results[0]["one_way_us"])


def launch(command: list[str], contender: str, ranks: int) -> list[dict[str, Any]]:
    """Run a command of ranks that meet in a new folder, and return what each has left there."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="hora-bench-", dir=memory if memory.is_dir() else None) as folder:
        page = Path(folder) / "page"
        page.touch()
        os.truncate(page, PAGE_BYTES)
        run(command, LIMIT_S, {**LAUNCHES[contender].environment, "HORA_BENCH_FOLDER": folder})
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)]


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0


def percentiles_us(seconds: Sequence[float]) -> dict[str, Any]:
    """Return p10, p50 and p90 as the fields of a row."""
    values = np.percentile(np.array(seconds) * 1e6, (10, 50, 90))
    return dict(zip(("p10_us", "p50_us", "p90_us"), map(float, values), strict=True))
