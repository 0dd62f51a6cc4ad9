"""Measures what an initialised rank that does nothing costs, in percent of a core.

mpirun -np 2 --bind-to none python benchmarks/python/idle.py
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import hora


def idle_percent(settle_s: float, measure_s: float) -> float:
    """Sleep, and return the processor time of all threads of this process meanwhile."""
    time.sleep(settle_s)
    start, used = time.perf_counter(), time.process_time()
    time.sleep(measure_s)
    return 100 * (time.process_time() - used) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="default: 5")
    parser.add_argument("--quick", action="store_true", help="one second")
    parser.add_argument("--settle", type=float, default=1.0, help="seconds to wait first")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    seconds = options.seconds or (1.0 if options.quick else 5.0)
    hora.init()
    hora.barrier()
    own = idle_percent(options.settle, seconds)
    percent = [round(float(value), 3) for value in hora.allgather(np.array([own]))]
    if hora.rank() == 0:
        print("idle ranks use " + ", ".join(f"{value:.2f} %" for value in percent) + " of a core")
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            figures = {"ranks": hora.size(), "seconds": seconds, "percent_of_core": percent}
            options.json.write_text(json.dumps({**figures, "worst": max(percent)}, indent=1) + "\n")
    hora.shutdown()


if __name__ == "__main__":
    main()
