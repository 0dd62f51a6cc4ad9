"""tests/gpu/run.sh on the stand-ins, with the build that the other tests use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "dev"
NEED_A_GPU = {"packing-sanitizer", "packing-bandwidth", "optimizer-1", "optimizer-2"}


def run(output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        "tests/gpu/run.sh",
        "--build",
        str(BUILD),
        "--kit",
        str(output / "none"),
        "--output",
        str(output),
    ]
    return subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )


def table_of(text: str) -> dict[str, str]:
    """Return the outcome of each part."""
    lines = [line.split(" | ") for line in text.splitlines() if line.count(" | ") >= 3]
    assert [word.strip() for word in lines[0]] == ["PART", "OUTCOME", "SECONDS", "REMARK"]
    return {words[0].strip(): words[1].strip() for words in lines[1:]}


@pytest.mark.timeout(120)
def test_every_part_runs_on_stand_ins_or_says_that_it_needs_a_gpu(tmp_path: Path) -> None:
    ended = run(tmp_path, "--stand-ins")
    assert ended.returncode == 0, ended.stdout + ended.stderr + (tmp_path / "parts.log").read_text()
    outcomes = table_of((tmp_path / "table.txt").read_text())
    assert ended.stdout.endswith((tmp_path / "table.txt").read_text())
    assert {part for part, outcome in outcomes.items() if outcome == "skipped"} == NEED_A_GPU
    assert set(outcomes.values()) == {"passed", "skipped"}
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert outcomes.keys() - {"packing-sanitizer"} == {row["part"] for row in rows}
    assert len(list(tmp_path.iterdir())) <= 8


def test_one_part_alone_runs_what_it_needs(tmp_path: Path) -> None:
    ended = run(tmp_path, "--stand-ins", "--only", "collectives-2")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert table_of(ended.stdout) == {"collectives-2": "passed"}


def test_an_unknown_part_is_refused_with_the_names_of_all(tmp_path: Path) -> None:
    ended = run(tmp_path, "--stand-ins", "--only", "colectives")
    assert ended.returncode == 2
    assert "collectives-1" in ended.stderr
