"""Runs every test and ends with one line ``N passed, N failed``.

Exits non-zero if something failed or nothing ran.

Usage: ``python tests/run.py [--only SUITE] [-k EXPRESSION] [--ranks N]``
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parent))

from harness.results import Suite, closing_line
from harness.suites import TITLES, find_suites

TOTAL_S = 45 * 60.0  # then something hangs


def show(suite: Suite) -> None:
    """Complete the suite's line, then print what failed."""
    counts = "".join(f"{suite.count(outcome):6} {outcome}" for outcome in ("passed", "failed", "skipped"))
    print(f"{counts} {suite.seconds:7.1f} s", flush=True)
    for result in suite.results:
        if result.outcome == "failed":
            print(f"FAILED {result.name}\n{result.detail.rstrip()}\n", flush=True)


def stop(number: int, frame: FrameType | None) -> None:
    """Turn a signal into an exception, so that launches end what they started."""
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=TITLES, help="run this suite alone")
    parser.add_argument("-k", dest="keyword", help="run the tests whose names match, as in pytest")
    parser.add_argument("--slowest", type=int, default=0, help="list this many of the slowest tests")
    parser.add_argument("--ranks", type=int, help="run parallel tests with this many ranks alone")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    until = time.monotonic() + TOTAL_S
    suites = []
    for title, run in find_suites(arguments.only, arguments.keyword, arguments.ranks):
        print(f"{title:24}", end="", flush=True)
        suites.append(run(until))
        show(suites[-1])
    everything = [result for suite in suites for result in suite.results]
    for result in sorted(everything, key=lambda result: -result.seconds)[: arguments.slowest]:
        print(f"{result.seconds:7.2f} s  {result.name}")
    failed = [result.name for result in everything if result.outcome == "failed"]
    if failed:
        print("Failed:", *failed, sep="\n  ")
    print(closing_line(suites))
    ran = sum(suite.count("passed") for suite in suites)
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
