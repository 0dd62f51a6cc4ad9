"""A page of memory that all ranks of a host map: to meet without any library, and for the core latency."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from launch import ROOT

BOUNDS = ROOT / "build" / "dev" / "benchmarks" / "cpp" / "libhora_bounds.so"
PAGE_BYTES = 16 << 10
BARRIER_AT = 256  # bytes before it belong to hora_bench_one_way_us
LINE = 64
ROUND_TRIPS = 200


def load_bounds() -> ctypes.CDLL | None:
    """Return the C functions of benchmarks/cpp/bounds, or None where they are not built."""
    if not BOUNDS.exists():
        return None
    bounds = ctypes.CDLL(str(BOUNDS))
    bounds.hora_bench_one_way_us.restype = ctypes.c_double
    bounds.hora_bench_one_way_us.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    bounds.hora_bench_read_and_write.restype = None
    bounds.hora_bench_read_and_write.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return bounds


def create_page() -> Path:
    """Return the path of a new page of zeros, in memory where the system has such a folder."""
    memory = Path("/dev/shm")
    file, path = tempfile.mkstemp(prefix="hora-bench-", dir=memory if memory.is_dir() else None)
    os.truncate(file, PAGE_BYTES)
    os.close(file)
    return Path(path)


class SharedPage:
    """This rank's view of the page. All ranks make the same calls in the same order."""

    def __init__(self, path: Path, rank: int, size: int) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), PAGE_BYTES)
        lines = np.frombuffer(self._memory, np.uint64, offset=BARRIER_AT).reshape(-1, LINE // 8)
        self._arrived = lines[:size, 0]  # by rank: how many barriers it has come to
        self._rank, self._size = rank, size
        self._bounds = load_bounds()

    def barrier(self) -> None:
        """Wait for all ranks, asleep, so that nobody is kept from a core."""
        self._arrived[self._rank] += 1
        while (self._arrived < self._arrived[self._rank]).any():
            time.sleep(1e-4)

    def one_way_us(self) -> float | None:
        """Return how long a store needs between the cores of ranks 0 and 1, on those two, else None."""
        if self._bounds is None or self._size < 2:
            return None
        latency = float("nan")
        if self._rank < 2:
            address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
            latency = self._bounds.hora_bench_one_way_us(address, self._rank, ROUND_TRIPS)
        self.barrier()
        return None if latency != latency else round(latency, 3)
