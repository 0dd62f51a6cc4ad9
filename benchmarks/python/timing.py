"""Times calls, after some that warm up."""

from __future__ import annotations

import time
from collections.abc import Callable

WARM_UP = 3


def time_calls(call: Callable[[], object], number: int) -> list[float]:
    """Return the seconds of each call after those that warm up."""
    seconds = []
    for _ in range(WARM_UP + number):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds[WARM_UP:]
