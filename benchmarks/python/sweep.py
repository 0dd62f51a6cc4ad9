"""Times the collectives over a range of sizes for several libraries side by side.

    python benchmarks/python/sweep.py --ranks 2
    mpirun -np 2 --bind-to none python benchmarks/python/sweep.py --contenders hora mpi

Contenders take turns, block by block, in the same processes and on the same memory, so that whatever the
machine does meanwhile hits them alike. The time of an iteration is that of its slowest rank. The last result
of every block is checked. Without mpirun the program starts it, several times: libraries whose threads would
disturb the others, and MPI without CMA, have launches of their own, which take turns, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path

from cells import Cell, time_cell
from contender import OPS
from contenders import CONTENDERS, join
from launch import FAST_HOROVOD, WITHOUT_CMA, Launch, alternate, installed, under_launcher, write_json
from referee import Referee, find_referee, open_page
from results import ITEM_BYTES, Row, console, make_table, merge

SIZES = tuple(4**exponent for exponent in range(1, 14))  # 4 B to 64 MiB
QUICK_SIZES = (4, 1 << 10, 64 << 10)
TOGETHER = ("hora", "hora-own", "hora-numpy", "mpi", "memory")
ALONE = (
    Launch(("mpi-no-cma",), WITHOUT_CMA, "mpi4py"),
    Launch(("gloo",), {}, "torch"),
    Launch(("horovod",), FAST_HOROVOD, "horovod"),
    Launch(("deepspeed",), {}, "deepspeed"),
)
START_S = 180.0  # for processes to start and end, and for DeepSpeed to build what it needs


def sweep(options: argparse.Namespace, referee: Referee) -> list[Row]:
    """Time every operation at every size, and print what is done."""
    page = open_page(referee)
    contenders = join(options.contenders, referee)
    until = time.perf_counter() + options.budget
    sizes = [(op, dtype, size) for op in options.ops for dtype in options.dtypes for size in options.sizes]
    rows: list[Row] = []
    for done, (op, dtype, size) in enumerate(sizes):
        left_s = until - time.perf_counter()  # what one cell overdraws, the others pay
        cell = Cell(op, size, dtype, referee)
        rows += time_cell(cell, contenders, page, left_s / (len(sizes) - done))
    for contender in contenders.values():
        contender.close()
    return rows


def drive(options: argparse.Namespace) -> list[Row]:
    """Start the ranks, one launch after the other, and put their rows together."""
    together = tuple(name for name in options.contenders if name in TOGETHER)
    launches = [Launch(together)] if together else []
    launches += [launch for launch in ALONE if set(launch.contenders) <= set(options.contenders)]
    launches = installed(launches)
    budget_s = options.budget / options.rounds / max(len(launches), 1)
    arguments = ["--ops", *options.ops, "--dtypes", *options.dtypes, "--budget", str(budget_s)]
    arguments += ["--sizes", *map(str, options.sizes)]
    limit_s = 5 * budget_s + START_S
    script = Path(__file__)
    rounds = alternate(script, arguments, launches, options.ranks, options.rounds, limit_s)
    return merge(Row(**row) for rows in rounds for row in rows)


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
    everyone = [name for name in CONTENDERS if name != "hora-numpy"]
    parser.add_argument("--ops", nargs="+", choices=OPS, default=list(OPS))
    parser.add_argument("--sizes", nargs="+", type=bytes_of, help="such as 4 1K 16M; default: 4 to 64M")
    parser.add_argument("--dtypes", nargs="+", choices=ITEM_BYTES, default=["float32"])
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=everyone)
    parser.add_argument("--budget", type=float, help="seconds to measure, everything together; default: 100")
    parser.add_argument("--ranks", type=int, default=2, help="without mpirun")
    parser.add_argument("--rounds", type=int, help="of launches, without mpirun; default: 3")
    parser.add_argument("--quick", action="store_true", help="few sizes, one round, seconds")
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    options = parser.parse_args()
    options.sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    options.budget = options.budget or (4.0 if options.quick else 100.0)
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def main() -> None:
    options = parse_options()
    referee = find_referee() if under_launcher() else None
    rows = sweep(options, referee) if referee else drive(options)
    if referee is None or referee.rank == 0:
        ranks = referee.size if referee else options.ranks
        console().print(make_table(rows, f"{ranks} ranks"))
        write_json(options.json, [asdict(row) for row in rows])
    if any(row.wrong for row in rows):
        sys.exit("some results were wrong")


if __name__ == "__main__":
    main()
