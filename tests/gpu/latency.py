"""How long a call takes until the GPU has been told what to do, and until it has done it.

With HORA_NCCL_BLOCKING=true NCCL waits inside of its calls; compare.
"""

from __future__ import annotations

import os
import time
from typing import Any

import arrays
import numpy
import report

import hora

WARM_UP = 3


def measure(device: arrays.Arrays, name: str, tensors: list[Any], repeats: int) -> dict[str, list[float]]:
    """Return durations from the call: until it returns, until it is launched, and until it is complete."""
    times: dict[str, list[float]] = {"submitted": [], "launched": [], "complete": []}
    for number in range(WARM_UP + repeats):
        device.synchronize()
        start = time.perf_counter()
        handle = device.hvd.grouped_allreduce_async_(tensors, name=name, op=device.hvd.Sum)
        submitted = time.perf_counter()
        device.hvd.synchronize(handle)
        launched = time.perf_counter()
        device.synchronize()
        complete = time.perf_counter()
        if number >= WARM_UP:
            for what, moment in (("submitted", submitted), ("launched", launched), ("complete", complete)):
                times[what].append(moment - start)
    return times


def main() -> None:
    parser = arrays.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=500)
    arguments = parser.parse_args()
    device = arrays.start(arguments)
    repeats = min(arguments.repeats, 12) if arguments.share else arguments.repeats
    blocking = os.environ.get("HORA_NCCL_BLOCKING", "false") == "true"
    remark = ""
    for what, count, elements in (("4 B", 1, 1), ("1 MiB", 1, 1 << 18), ("100 of 4 KiB", 100, 1 << 10)):
        tensors = [device.array(numpy.zeros(elements), "float32") for _ in range(count)]
        times = measure(device, what, tensors, repeats)
        spread = {
            name: value for each in times for name, value in report.percentiles(each, times[each]).items()
        }
        report.first_row(what=what, ranks=hora.size(), blocking=blocking, repeats=repeats, **spread)
        medians = "launched after {launched_p50_us} us, complete after {complete_p50_us} us".format(**spread)
        remark = remark or f"{what}: {medians}"
    report.finish([], remark)


if __name__ == "__main__":
    main()
