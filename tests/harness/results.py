"""Outcomes of tests, and how the outcomes of several ranks become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Result:
    """One test after all its ranks have reported."""

    name: str
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0


@dataclass
class Suite:
    """What one suite found, with the time it took."""

    title: str
    results: list[Result] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, outcome: Outcome) -> int:
        return sum(result.outcome == outcome for result in self.results)


def by_rank(texts: Sequence[str]) -> str:
    """Join the ranks' texts, each distinct text once below the ranks that sent it."""
    ranks: dict[str, list[int]] = {}
    for rank, text in enumerate(texts):
        if text:
            ranks.setdefault(text, []).append(rank)
    blocks = (f"--- rank {', '.join(map(str, owners))} ---\n{text}" for text, owners in ranks.items())
    return "\n".join(blocks) if len(texts) > 1 else "\n".join(ranks)


def merge(name: str, reports: Sequence[dict[str, Any]], seconds: float = 0.0) -> Result:
    """Make one result of the ranks' reports; a failure anywhere fails, so does a skip on some ranks only."""
    outcomes = [report["outcome"] for report in reports]
    detail = by_rank([report["detail"] for report in reports])
    if "failed" in outcomes:
        return Result(name, "failed", detail, seconds)
    if len(set(outcomes)) > 1:
        skipped = [rank for rank, outcome in enumerate(outcomes) if outcome == "skipped"]
        return Result(name, "failed", f"skipped on ranks {skipped} only\n{detail}", seconds)
    return Result(name, outcomes[0], detail, seconds)


def closing_line(suites: Iterable[Suite]) -> str:
    """Return the one line that ends a run."""
    everything = [result.outcome for suite in suites for result in suite.results]
    line = f"{everything.count('passed')} passed, {everything.count('failed')} failed"
    skipped = everything.count("skipped")
    return f"{line}, {skipped} skipped" if skipped else line
