"""Times allreduce, broadcast and allgather over a range of sizes for several libraries side by side.

    mpirun -np 2 --bind-to none python benchmarks/python/sweep.py

The contenders take turns, block by block, in the same processes and on the same memory, so that whatever the
machine does meanwhile hits them alike. Before each timed call the buffer is filled anew and all ranks meet at
a barrier; the time of an iteration is that of its slowest rank. The last result of every block is checked.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from contenders import CONTENDERS, OPS, Array, Contender, Referee, find_referee
from results import HEADING, Row, make_row

SIZES = tuple(4**exponent for exponent in range(1, 14))  # 4 B to 64 MiB
LEAST_ROUNDS = 5
MOST_ITERATIONS = 20_000


class Cell:
    """One operation at one size: the memory all contenders work on, and what must come out."""

    def __init__(self, op: str, size: int, referee: Referee) -> None:
        count = size // 4
        pattern = np.arange(count, dtype=np.float32) % 61 + 1
        self.op = op
        self.source: Array = pattern * np.float32(referee.rank + 1)
        self.work = self.source.copy()
        self.gathered = np.zeros(count * referee.size, np.float32)
        self.expected = expect(op, pattern, referee.size)
        self.block = 50 if size <= 4 << 10 else 10 if size <= 256 << 10 else 3 if size <= 4 << 20 else 1

    def time_block(self, call: Callable[[], Any], referee: Referee) -> tuple[list[float], int]:
        """Run a block of iterations; return this rank's seconds and how many elements came out wrong."""
        seconds, result = [], None
        self.gathered.fill(0)
        for _ in range(self.block):
            del result  # a result of the last iteration is given back before the next is timed
            self.work[:] = self.source
            referee.barrier()
            start = time.perf_counter()
            result = call()
            seconds.append(time.perf_counter() - start)
        output = self.work
        if self.op == "allgather":
            output = self.gathered if result is None else np.asarray(result)
        return seconds, int(np.count_nonzero(output != self.expected))


def expect(op: str, pattern: Array, ranks: int) -> Array:
    """Return the result when each rank puts in the pattern times its number plus one; may change it."""
    factors = np.arange(1, ranks + 1, dtype=np.float32)
    if op == "allgather":
        return np.concatenate([pattern * factor for factor in factors])
    pattern *= factors.sum() if op == "allreduce" else factors[0]
    return pattern


def time_cell(
    op: str, size: int, contenders: dict[str, Contender], referee: Referee, budget_s: float
) -> list[Row]:
    """Let the contenders take turns until the time is used up."""
    cell = Cell(op, size, referee)
    calls = {name: contender.prepare(op, cell.work, cell.gathered) for name, contender in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    wrong = dict.fromkeys(calls, 0)
    order = deque(calls)
    until = time.perf_counter() + budget_s
    for turn in range(MOST_ITERATIONS // cell.block):
        for name in order:
            measured, mistakes = cell.time_block(calls[name], referee)
            seconds[name] += measured if turn else []  # the first turn warms up
            wrong[name] += mistakes
        order.rotate()
        over = float(time.perf_counter() > until and turn >= LEAST_ROUNDS)
        if referee.largest(np.array([over]))[0]:
            break
    return [
        make_row(
            op,
            size,
            referee.size,
            name,
            referee.largest(np.array(seconds[name])),
            int(referee.largest(np.array([float(wrong[name])]))[0]),
        )
        for name in calls
    ]


def join(names: list[str], referee: Referee) -> dict[str, Contender]:
    """Return the contenders that are installed; name those that are not."""
    found: dict[str, Contender] = {}
    for name in names:
        try:
            found[name] = CONTENDERS[name](referee)
        except ImportError as error:
            if referee.rank == 0:
                print(f"# {name} is left out: {error}", flush=True)
    return found


def sweep(options: argparse.Namespace, referee: Referee) -> list[Row]:
    """Time every operation at every size, and print each row as soon as it is there."""
    contenders = join(options.contenders, referee)
    until = time.perf_counter() + options.budget
    cells_left = len(options.ops) * len(options.sizes)
    rows: list[Row] = []
    for op in options.ops:
        if referee.rank == 0:
            print(f"# {op}, {referee.size} ranks\n{HEADING}", flush=True)
        for size in options.sizes:
            budget_s = (until - time.perf_counter()) / cells_left  # what one cell overdraws, the others pay
            cell = time_cell(op, size, contenders, referee, budget_s)
            cells_left -= 1
            rows += cell
            reference = next((row.p50_us for row in cell if row.contender == "hora"), None)
            if referee.rank == 0:
                print(*(row.line(reference) for row in cell), sep="\n", flush=True)
    for contender in contenders.values():
        contender.close()
    return rows


def bytes_of(text: str) -> int:
    """Read a size such as 4, 16K or 64M, which must hold whole float32 elements."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    size = int(text[:-1]) * units[text[-1].upper()] if text[-1:].upper() in units else int(text)
    if size <= 0 or size % 4:
        raise argparse.ArgumentTypeError(f"{text} is not a positive multiple of 4 bytes")
    return size


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", nargs="+", choices=OPS, default=list(OPS))
    parser.add_argument("--sizes", nargs="+", type=bytes_of, default=list(SIZES), help="such as 4 1K 16M")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=["hora", "mpi", "gloo"])
    parser.add_argument(
        "--budget", type=float, default=100.0, help="seconds for all sizes and operations together"
    )
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    referee = find_referee()
    rows = sweep(options, referee)
    if referee.rank == 0 and options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if any(row.wrong for row in rows):
        sys.exit("some results were wrong")


if __name__ == "__main__":
    main()
