"""The benchmark programs, on small sizes and for a few seconds."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from harness.mpirun import run_script

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "python"
FIELDS = {
    "op",
    "bytes",
    "dtype",
    "ranks",
    "contender",
    "p10_us",
    "p50_us",
    "p90_us",
    "algbw_GBps",
    "busbw_GBps",
    "wrong",
}


def run_benchmark(name: str, *arguments: object) -> str:
    words = [name, *map(str, arguments)]
    script = (
        f"import runpy, sys\nsys.path.insert(0, {str(BENCHMARKS)!r})\nsys.argv = {words}\n"
        f"runpy.run_path({str(BENCHMARKS / name)!r}, run_name='__main__')\n"
    )
    ending = run_script(script, 2, limit_s=90)
    assert ending.code == 0, ending.output
    assert ending.left == []
    return ending.output


@pytest.mark.timeout(120)
def test_sweep_reports_every_contender_with_right_results(tmp_path: Path) -> None:
    installed = {"hora-numpy": "hora", "mpi": "mpi4py", "hora": "torch", "gloo": "torch"}
    arguments = ("--sizes", 4, "1K", "64K", "--budget", 2, "--json", tmp_path / "sweep.json")
    output = run_benchmark("sweep.py", *arguments, "--contenders", *installed)
    rows = json.loads((tmp_path / "sweep.json").read_text())
    expected = {name for name, module in installed.items() if importlib.util.find_spec(module)}
    assert {row["contender"] for row in rows} == expected
    assert len(rows) == len(expected) * 3 * 3
    for row in rows:
        assert row.keys() == FIELDS
        assert row["wrong"] == 0
        assert row["ranks"] == 2
        assert 0 < row["p10_us"] <= row["p50_us"] <= row["p90_us"]
    for left_out in installed.keys() - expected:
        assert f"{left_out} is left out" in output


@pytest.mark.timeout(120)
def test_idle_reports_every_rank(tmp_path: Path) -> None:
    run_benchmark("idle.py", "--seconds", 1, "--settle", 0.5, "--json", tmp_path / "idle.json")
    figures = json.loads((tmp_path / "idle.json").read_text())
    assert figures.keys() == {"ranks", "seconds", "percent_of_core", "worst"}
    assert len(figures["percent_of_core"]) == figures["ranks"] == 2
    assert figures["worst"] == max(figures["percent_of_core"])
