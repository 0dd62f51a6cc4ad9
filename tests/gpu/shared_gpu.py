"""Whether several ranks can use one GPU here at all, and how slow that is.

With ``--refused``: they cannot without a trick, and hora says so.
"""

from __future__ import annotations

import os
import time

import arrays
import numpy
import report

import hora


def check_refusal(device: arrays.Arrays) -> str:
    """Return what is wrong with how hora refuses two ranks on one GPU."""
    try:
        device.hvd.allreduce(device.array(numpy.ones(4), "float32"))
    except hora.HorovodInternalError as error:
        return "" if "both use GPU" in str(error) else f"refused, but: {error}"
    return "two ranks on one GPU were not refused"


def main() -> None:
    parser = arrays.parser(__doc__)
    parser.add_argument("--refused", action="store_true")
    arguments = parser.parse_args()
    device = arrays.start(arguments)
    rank, size = hora.rank(), hora.size()
    if arguments.refused:
        problem = check_refusal(device)
        if rank == 0 or problem:  # the session is over, so ranks cannot tell each other
            report.row(
                outcome="failed" if problem else "passed",
                remark=problem or "refused clearly without the trick",
            )
        os._exit(0)
    wrong: list[str] = []
    seconds: list[float] = []
    for count in (1000, 1000, 1000, 1_000_000):
        tensor = device.array(numpy.full(count, rank + 1), "float32")
        hora.barrier()
        start = time.perf_counter()
        device.hvd.allreduce_(tensor, op=device.hvd.Sum)
        device.synchronize()
        seconds.append(time.perf_counter() - start)
        if not (device.values(tensor) == size * (size + 1) / 2).all():
            wrong.append(f"the sum of {count} elements is wrong")
        report.first_row(elements=count, ranks=size, ms=round(1e3 * seconds[-1], 3))
    report.finish(
        wrong, f"{device.describe}: first call {seconds[0]:.2f} s, the next {1e3 * seconds[1]:.1f} ms"
    )


if __name__ == "__main__":
    main()
