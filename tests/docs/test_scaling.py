"""The figures in docs/scaling.md are what `agreement_scale` and the formulas of `scale_model` say.

The largest jobs take a minute to simulate: TEST_SCALING_RANKS=32768 has the last row compared as well.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scaling.md").read_text()
PROGRAM = ROOT / "build" / "dev" / "benchmarks" / "cpp" / "agreement" / "agreement_scale"
MOST_RANKS = int(os.environ.get("TEST_SCALING_RANKS", "4096"))
TABLE = [line.strip("| ").split(" | ") for line in re.findall(r"^\| [\d,]+ \|.*$", PAGE, re.MULTILINE)]
ROWS = [row for row in TABLE if int(row[0].replace(",", "")) <= MOST_RANKS]
# What the page says of the plot, the function that it comes from, bytes and ranks.
CLAIMS = (
    ("64 MiB take {:.1f} ms instead of", "two_level_ring", 64 << 20, 4096),
    ("instead of {:.0f} ms", "ring", 64 << 20, 4096),
    ("even for 64 MiB: {:.0f} ms at 100,000 ranks", "two_level_ring", 64 << 20, 100_000),
    ("There a tree would take {:.1f} ms", "two_level_tree", 64 << 20, 100_000),
    ("16 KiB take {:.2f} ms at 4,096 ranks", "two_level_doubling", 16 << 10, 4096),
    ("and {:.2f} ms at 100,000.", "two_level_doubling", 16 << 10, 100_000),
)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Run the program with the options that the page has; return its rows by number of ranks."""
    if not PROGRAM.exists():
        pytest.skip("agreement_scale has not been built")
    path = tmp_path_factory.mktemp("scale") / "rows.json"
    command = [str(PROGRAM), "--json", str(path), "--most-ranks", str(MOST_RANKS)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    return {in_words(row["ranks"]): row for row in json.loads(path.read_text())}


def in_words(number: float) -> str:
    return f"{number:,.0f}"


def cells(row: dict[str, Any]) -> list[str]:
    def both(name: str) -> str:
        return in_words(row[f"{name}_inside"] + row[f"{name}_between"])

    first_step_bytes = row["hora_cold_bytes_inside"] + row["hora_cold_bytes_between"]
    return [
        in_words(row["ranks"]),
        in_words(row["hosts"]),
        both("hora_steady_messages"),
        both("hora_steady_bytes"),
        f"{row['hora_steady_steps_inside']} + {row['hora_steady_steps_between']}",
        in_words(row["hora_steady_fan_in"]),
        in_words(row["hora_steady_time_us"]),
        in_words(first_step_bytes / 1e3),
        both("flat_steady_messages"),
        both("flat_steady_bytes"),
        both("flat_steady_steps"),
        in_words(row["flat_steady_time_us"]),
        in_words(row["flat_cold_fan_in"]),
        in_words(row["flat_cold_time_us"]),
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_row_is_what_the_program_says(row: list[str], simulated: dict[str, dict[str, Any]]) -> None:
    assert row == cells(simulated[row[0]])


def test_there_are_rows() -> None:
    assert len(ROWS) >= 5


@pytest.mark.parametrize(("claim", "way", "size", "ranks"), CLAIMS)
def test_claim_follows_from_the_formula(
    claim: str, way: str, size: int, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "python")
    model = importlib.import_module("scale_model")
    seconds = getattr(model, way)(size, ranks, model.Machine())
    assert claim.format(1e3 * seconds) in " ".join(PAGE.split())
