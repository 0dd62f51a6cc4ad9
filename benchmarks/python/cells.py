"""One operation at one size: the memory contenders work on, what must come out, and how they take turns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from contender import Array, Contender, Memory
from referee import Referee
from results import ITEM_BYTES, Row, make_row
from shared_page import SharedPage

LEAST_ROUNDS = 5
MOST_ITERATIONS = 20_000
DIVIDED = ("alltoall", "reducescatter")


class Cell:
    """Before each timed call the input is filled anew and all ranks meet at a barrier."""

    def __init__(self, op: str, size: int, dtype: str, referee: Referee) -> None:
        unit = referee.size if op in DIVIDED else 1  # their input has a part for each rank
        count = max(size // ITEM_BYTES[dtype] // unit, 1) * unit
        # Small numbers, which also halves hold exactly when several are added.
        pattern = np.arange(count, dtype=np.float32) % (61 if dtype == "float32" else 7) + 1
        self.referee = referee
        self.source = encode(pattern * np.float32(referee.rank + 1), dtype)
        self.expected = encode(expect(op, pattern, referee), dtype)
        output = np.zeros(
            self.expected.size if op not in ("allreduce", "broadcast") else 0, self.source.dtype
        )
        self.memory = Memory(op, dtype, self.source.copy(), output)
        self.block = 50 if size <= 4 << 10 else 10 if size <= 256 << 10 else 3 if size <= 4 << 20 else 1

    def memory_of(self, contender: Contender) -> Memory:
        """Return the memory a contender has of its own, else that of all."""
        own = contender.allocate(self.source.size, self.memory.dtype)
        return self.memory if own is None else replace(self.memory, work=own)

    def time_block(self, call: Callable[[], Any], memory: Memory) -> tuple[list[float], int]:
        """Run a block of iterations; return this rank's seconds and how many elements came out wrong."""
        seconds, result = [], None
        memory.output.fill(0)
        for _ in range(self.block):
            del result  # a result of the last iteration is given back before the next is timed
            memory.work[:] = self.source
            self.referee.barrier()
            start = time.perf_counter()
            result = call()
            seconds.append(time.perf_counter() - start)
        if memory.op in ("allreduce", "broadcast"):
            output = memory.work
        else:
            output = memory.output if result is None else bits_of(result, memory.output.dtype)
        return seconds, int(np.count_nonzero(output != self.expected))


def expect(op: str, pattern: Array, referee: Referee) -> Array:
    """Return this rank's result when each rank puts in the pattern times its number plus one."""
    factors = np.arange(1, referee.size + 1, dtype=np.float32)
    if op == "allgather":
        return np.concatenate([pattern * factor for factor in factors])
    if op in ("allreduce", "broadcast"):
        return pattern * np.float32(factors.sum()) if op == "allreduce" else pattern
    part = pattern.reshape(referee.size, -1)[referee.rank]
    if op == "reducescatter":
        return np.asarray(part * factors.sum())
    return np.concatenate([part * factor for factor in factors])


def encode(values: Array, dtype: str) -> Array:
    """Return float32 values that fit exactly as what a buffer of `dtype` holds; halves as int16."""
    if dtype == "float16":
        return np.asarray(values, np.float16).view(np.int16)
    if dtype == "bfloat16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.int16)
    return values


def bits_of(result: Any, storage: np.dtype[Any]) -> Array:
    """Return a result as an array; a tensor of halves as int16."""
    if storage == np.int16 and not isinstance(result, np.ndarray):
        import torch

        result = result.view(torch.int16)
    return np.asarray(result)


def time_cell(
    cell: Cell, contenders: Mapping[str, Contender], page: SharedPage, budget_s: float
) -> list[Row]:
    """Let the contenders that have the operation take turns until the time is used up."""
    referee = cell.referee
    memories = {name: cell.memory_of(contender) for name, contender in contenders.items()}
    calls: dict[str, Callable[[], Any]] = {}
    for name, contender in contenders.items():
        try:
            calls[name] = contender.prepare(memories[name])
        except NotImplementedError:
            continue
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    wrong = dict.fromkeys(calls, 0)
    one_way_us = page.one_way_us()
    order = deque(calls)
    until = time.perf_counter() + budget_s
    for turn in range(MOST_ITERATIONS // cell.block):
        for name in order:
            measured, mistakes = cell.time_block(calls[name], memories[name])
            seconds[name] += measured if turn else []  # the first turn warms up
            wrong[name] += mistakes if contenders[name].checked else 0
        order.rotate()
        over = float(time.perf_counter() > until and turn >= LEAST_ROUNDS)
        if referee.largest(np.array([over]))[0]:
            break
    what = (cell.memory.op, cell.source.nbytes, cell.memory.dtype)
    return [
        make_row(
            what,
            referee.size,
            name,
            referee.largest(np.array(seconds[name])),
            int(referee.largest(np.array([float(wrong[name])]))[0]),
            one_way_us,
        )
        for name in calls
    ]
