"""What one contender needed for one operation and size: its row in the table and in the JSON file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HEADING = (
    f"{'size':>10} {'count':>10} {'type':>8} {'contender':>10} {'p10':>10} {'time':>10} {'p90':>10}"
    f" {'algbw':>7} {'busbw':>7} {'wrong':>6} {'/hora':>7}\n"
    f"{'(B)':>10} {'(elements)':>10} {'':>8} {'':>10} {'(us)':>10} {'(us)':>10} {'(us)':>10}"
    f" {'(GB/s)':>7} {'(GB/s)':>7} {'':>6} {'':>7}"
)


@dataclass(frozen=True)
class Row:
    """Times are those of the slowest rank in each iteration; `bytes` is what one rank puts in."""

    op: str
    bytes: int
    dtype: str
    ranks: int
    contender: str
    p10_us: float
    p50_us: float
    p90_us: float
    algbw_GBps: float
    busbw_GBps: float
    wrong: int

    def line(self, hora_p50_us: float | None) -> str:
        """Return the row as text; the last column tells how many times longer than hora it took."""
        ratio = f"{self.p50_us / hora_p50_us:.2f}x" if hora_p50_us else "-"
        return (
            f"{self.bytes:>10} {self.bytes // np.dtype(self.dtype).itemsize:>10} {self.dtype:>8}"
            f" {self.contender:>10}"
            f" {self.p10_us:>10.1f} {self.p50_us:>10.1f} {self.p90_us:>10.1f}"
            f" {self.algbw_GBps:>7.2f} {self.busbw_GBps:>7.2f} {self.wrong:>6} {ratio:>7}"
        )


def make_row(op: str, size: int, ranks: int, contender: str, seconds: NDArray[np.float64], wrong: int) -> Row:
    """Summarise the iterations of one contender.

    The bus bandwidth is what each link carries at least: 2 (n-1) / n times the algorithm bandwidth for
    allreduce, (n-1) times for allgather, of which `size` is one rank's share, and once for broadcast.
    """
    p10, p50, p90 = (float(value) for value in np.percentile(seconds * 1e6, (10, 50, 90)))
    bandwidth = size / p50 / 1e3
    factor = {"allreduce": 2 * (ranks - 1) / ranks, "allgather": ranks - 1, "broadcast": 1}[op]
    return Row(op, size, "float32", ranks, contender, p10, p50, p90, bandwidth, bandwidth * factor, wrong)
