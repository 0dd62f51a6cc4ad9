"""Renders build/bench/report.html from build/bench/*.json: one file with targets, tables and plots."""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path

import plots
import targets
from figures import Figures
from launch import OUTPUT
from sheets import SHEETS, Sheet

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: .5em 0 2em } caption { text-align: left; font-weight: 600 }
th, td { padding: .15em .7em; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left } svg { max-width: 100%; height: auto }
.met { color: #15803d } .missed { color: #b91c1c } .not { color: #888 }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } svg { background: #fff } }
"""
NOTE = """Medians, with p10 and p90 in brackets; the time of an iteration is that of its slowest rank.
Contenders took turns, all with memory that is never given back to the system. "one-way" is how long a store
needed between the cores of ranks 0 and 1, in us: where it differs, so did the machine, and only ratios within
a row can be compared."""


def html_table(sheet: Sheet) -> str:
    """Return a table; a verdict is its own colour."""
    head = "".join(f"<th>{escape(text)}</th>" for text in sheet.headings)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>\n" for row in sheet.rows)
    return f"<table><caption>{escape(sheet.title)}</caption><tr>{head}</tr>\n{body}</table>\n"


def cell(text: str) -> str:
    colour = f' class="{text.split()[0]}"' if text in targets.COLOURS else ""
    return f"<td{colour}>{escape(text)}</td>"


def drawn(figures: Figures) -> Iterator[str]:
    """Return the plots for which there are figures."""
    for name, ranks in (("sweep_2", 2), ("sweep_4", 4), ("sweep_ops_2", 2)):
        rows = figures.rows(name)
        for op in dict.fromkeys(row["op"] for row in rows):
            yield plots.svg(plots.sweep(rows, op, ranks))
    if figures.rows("training"):
        yield plots.svg(plots.training(figures.rows("training")))
    if figures.rows("scaling"):
        yield plots.svg(plots.scaling(figures.rows("scaling")))


def render(folder: Path) -> Path:
    """Write the report of a folder into it."""
    figures = Figures(folder)
    rows = [target.cells() for target in targets.evaluate(folder)]
    tables = [Sheet("targets; 2 ranks unless said otherwise", list(targets.HEADINGS), rows)]
    tables += [sheet for make in SHEETS for sheet in make(figures)]
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}"
    place = f"{machine}, {time.strftime('%Y-%m-%d %H:%M')}"
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>hora: benchmarks</title>',
        f"<style>{STYLE}</style><h1>hora: benchmarks</h1><p>{escape(place)}</p><p>{escape(NOTE)}</p>",
        html_table(tables[0]),
        *drawn(figures),
        *map(html_table, tables[1:]),
    ]
    path = folder / "report.html"
    path.write_text("\n".join(parts) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=OUTPUT, help="default: build/bench")
    print(render(parser.parse_args().folder))


if __name__ == "__main__":
    main()
