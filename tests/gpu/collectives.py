"""Every collective on arrays of a GPU against what NumPy computes.

Values are such that every order of summing gives the same in every dtype, so results are compared exactly.
Where ranks share a GPU a launch takes milliseconds, and groups of tensors take the place of single calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import arrays
import numpy
import report

import hora

LENGTHS = (1, 2, 7, 1000, 30_011)
REDUCTIONS = ("Sum", "Average", "Min", "Max", "Product")
# Beside Sum, which is checked for all.
FEW = {
    "Average": ("int32", "bfloat16", "float32"),
    "Min": ("bool", "float16", "int64"),
    "Max": ("uint8", "float64"),
    "Product": ("int16", "float32"),
}

Check = Iterator[tuple[str, bool]]


def rank_values(dtype: str, shape: tuple[int, ...], rank: int, seed: int = 0) -> numpy.ndarray:
    """Return values of a rank; halves of small integers where there are fractions."""
    draw = numpy.random.default_rng([seed, rank])
    if dtype == "bool":
        return draw.random(shape) < 0.5
    if dtype in arrays.FLOATS:
        return draw.integers(-3, 4, size=shape) / 2
    return draw.integers(0 if dtype == "uint8" else -3, 4, size=shape)


def reduced(op: str, inputs: list[numpy.ndarray], dtype: str) -> numpy.ndarray:
    """Return the reduction over the ranks."""
    stacked = numpy.stack(inputs)
    if dtype == "bool":
        return stacked.any(axis=0) if op in ("Sum", "Max") else stacked.all(axis=0)
    if op == "Average" and dtype not in arrays.FLOATS:
        total = stacked.sum(axis=0)
        return numpy.sign(total) * (abs(total) // len(inputs))
    functions = {"Average": numpy.mean, "Sum": numpy.sum, "Min": numpy.min, "Max": numpy.max}
    return functions.get(op, numpy.prod)(stacked, axis=0)


class Checks:
    """The checks of one rank; each yields what it has compared, and whether that was right."""

    def __init__(self, device: arrays.Arrays, few: bool) -> None:
        self.device = device
        self.hvd = device.hvd
        self.few = few
        self.rank = hora.rank()
        self.ranks = range(hora.size())

    def inputs(self, dtype: str, shape: tuple[int, ...], seed: int = 0) -> list[numpy.ndarray]:
        return [rank_values(dtype, shape, rank, seed) for rank in self.ranks]

    def on_device(self, values: numpy.ndarray, dtype: str) -> object:
        return self.device.array(values, dtype)

    def equal(self, array: object, expected: numpy.ndarray) -> bool:
        values = self.device.values(array)
        return values.shape == expected.shape and bool((values == expected).all())

    def dtypes(self, op: str) -> tuple[str, ...]:
        if self.few and op != "Sum":
            return FEW[op]
        return tuple(dtype for dtype in arrays.DTYPES if (op, dtype) != ("Average", "bool"))

    def grouped_allreduce(self) -> Check:
        for op in REDUCTIONS:
            wanted = [(dtype, length) for dtype in self.dtypes(op) for length in LENGTHS]
            inputs = [self.inputs(dtype, (length,)) for dtype, length in wanted]
            mine = [
                self.on_device(each[self.rank], dtype)
                for each, (dtype, _) in zip(inputs, wanted, strict=True)
            ]
            results = self.hvd.grouped_allreduce(mine, op=getattr(self.hvd, op))
            for (dtype, length), each, result in zip(wanted, inputs, results, strict=True):
                yield f"{op} of {length} {dtype}", self.equal(result, reduced(op, each, dtype))

    def single_allreduce(self) -> Check:
        for op in ("Sum",) if self.few else REDUCTIONS:
            for dtype in ("float32",) if self.few else self.dtypes(op):
                inputs = self.inputs(dtype, (1001,), seed=1)
                mine = self.on_device(inputs[self.rank], dtype)
                expected = reduced(op, inputs, dtype)
                fresh = self.hvd.allreduce(mine, op=getattr(self.hvd, op))
                yield f"{op} of {dtype}", self.equal(fresh, expected)
                yield f"{op} of {dtype}, its input", self.equal(mine, inputs[self.rank])
                self.hvd.allreduce_(mine, op=getattr(self.hvd, op))
                yield f"{op} of {dtype} in place", self.equal(mine, expected)

    def scaled_allreduce(self) -> Check:
        for dtype in ("bfloat16",) if self.few else (*arrays.FLOATS, "int32"):
            inputs = self.inputs(dtype, (777,), seed=2)
            mine = self.on_device(inputs[self.rank], dtype)
            result = self.hvd.allreduce(mine, op=self.hvd.Sum, prescale_factor=2.0, postscale_factor=4.0)
            yield f"scaled {dtype}", self.equal(result, 8 * reduced("Sum", inputs, dtype))

    def broadcast(self) -> Check:
        for dtype in ("float32",) if self.few else arrays.DTYPES:
            for root in {0, len(self.ranks) - 1}:
                inputs = self.inputs(dtype, (3, 5), seed=3)
                mine = self.on_device(inputs[self.rank], dtype)
                yield f"{dtype} from {root}", self.equal(self.hvd.broadcast(mine, root), inputs[root])
                self.hvd.broadcast_(mine, root)
                yield f"{dtype} from {root} in place", self.equal(mine, inputs[root])

    def allgather(self) -> Check:
        for dtype in ("bool", "float32") if self.few else arrays.DTYPES:
            for what, rows in (("even", lambda rank: 2), ("uneven", lambda rank: rank)):
                inputs = [rank_values(dtype, (rows(rank), 3), rank, seed=4) for rank in self.ranks]
                result = self.hvd.allgather(self.on_device(inputs[self.rank], dtype))
                yield f"{what} {dtype}", self.equal(result, numpy.concatenate(inputs))

    def alltoall(self) -> Check:
        for dtype in ("int16", "float32") if self.few else arrays.DTYPES:
            splits = [[(rank + to) % 3 for to in self.ranks] for rank in self.ranks]
            inputs = [rank_values(dtype, (sum(splits[rank]), 2), rank, seed=5) for rank in self.ranks]
            result, received = self.hvd.alltoall(
                self.on_device(inputs[self.rank], dtype), splits=splits[self.rank]
            )
            cuts = [
                numpy.split(each, numpy.cumsum(row)[:-1]) for each, row in zip(inputs, splits, strict=True)
            ]
            expected = numpy.concatenate([cut[self.rank] for cut in cuts])
            yield dtype, self.equal(result, expected)
            yield f"splits of {dtype}", self.equal(received, numpy.array([row[self.rank] for row in splits]))

    def reducescatter(self) -> Check:
        for dtype in ("float32",) if self.few else ("int16", "int32", *arrays.FLOATS):
            for extra in (0, 1):
                inputs = self.inputs(dtype, (2 * len(self.ranks) + extra, 3), seed=6)
                result = self.hvd.reducescatter(self.on_device(inputs[self.rank], dtype), op=self.hvd.Sum)
                expected = numpy.array_split(reduced("Sum", inputs, dtype), len(self.ranks))[self.rank]
                yield f"{dtype}, {extra} rows more", self.equal(result, expected)

    def many_in_flight(self) -> Check:
        mine = [self.on_device(numpy.full(n, self.rank + 1), "float32") for n in range(1, 100)]
        handles = [
            self.hvd.allreduce_async_(each, name=f"many.{n}", op=self.hvd.Sum) for n, each in enumerate(mine)
        ]
        for handle in handles:
            self.hvd.synchronize(handle)
        total = sum(rank + 1 for rank in self.ranks)
        yield "sums", all(bool((self.device.values(each) == total).all()) for each in mine)

    def process_set(self) -> Check:
        members = list(self.ranks)[::2]
        if len(self.ranks) == 1:
            return  # there is no other than that of all
        even = hora.add_process_set(hora.ProcessSet(members))
        if even.included():
            mine = self.on_device(numpy.array([self.rank]), "int32")
            result = self.hvd.allreduce(mine, op=self.hvd.Sum, process_set=even)
            yield "sum", self.equal(result, numpy.array([sum(members)]))
        hora.remove_process_set(even)

    def join(self) -> Check:
        if self.rank > 0 or len(self.ranks) == 1:
            mine = self.on_device(numpy.array([2.0, 4.0]), "float32")
            result = self.hvd.allreduce(mine, op=self.hvd.Average)
            yield "average of the others", self.equal(result, numpy.array([2.0, 4.0]))
        hora.join(0)


def main() -> None:
    arguments = arrays.parser(__doc__).parse_args()
    device = arrays.start(arguments)
    checks = Checks(device, few=arguments.share)
    steps: list[Callable[[], Check]] = [
        checks.single_allreduce,
        checks.grouped_allreduce,
        checks.scaled_allreduce,
        checks.broadcast,
        checks.allgather,
        checks.alltoall,
        checks.reducescatter,
        checks.many_in_flight,
        checks.process_set,
        checks.join,
    ]
    wrong: list[str] = []
    done = 0
    for step in steps:
        start = time.perf_counter()
        found = list(step())
        done += len(found)
        wrong += [f"{step.__name__}: {what}" for what, is_right in found if not is_right]
        seconds = round(time.perf_counter() - start, 3)
        report.first_row(check=step.__name__, ranks=hora.size(), compared=len(found), seconds=seconds)
    report.finish(wrong, f"{done} results compared on each of {hora.size()} ranks")


if __name__ == "__main__":
    main()
