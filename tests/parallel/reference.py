"""What a reduction must give, computed serially in float64 or in Python integers."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy
from front_ends import FLOATS, FRONT_ENDS

REDUCTIONS = ("Average", "Sum", "Min", "Max", "Product")


@functools.lru_cache(maxsize=64)
def rank_values(dtype: str, shape: tuple[int, ...] | int, rank: int, seed: int = 0) -> numpy.ndarray:
    """Return values of rank `rank` that `dtype` holds exactly; any rank can compute those of all ranks."""
    values = draw_values(dtype, shape, rank, seed)
    values.setflags(write=False)
    return values


def draw_values(dtype: str, shape: tuple[int, ...] | int, rank: int, seed: int) -> numpy.ndarray:
    draw = numpy.random.default_rng([seed, rank, 11])
    if dtype == "bool":
        return draw.random(shape) < 0.5
    if dtype in FLOATS:
        knowing = next(front for front in FRONT_ENDS if dtype in front.dtypes)
        return knowing.array(knowing.tensor(draw.normal(size=shape), dtype))
    return draw.integers(0 if dtype == "uint8" else -9, 10, size=shape, dtype="int64")


def wrapped(values: numpy.ndarray, dtype: str) -> numpy.ndarray:
    """Return integers as they come out of arithmetic modulo the width of `dtype`."""
    return values.astype(dtype).astype("int64")


def reduced(reduction: str, inputs: Sequence[numpy.ndarray], dtype: str) -> numpy.ndarray:
    """Return the result of a reduction over the ranks; exact for bool and integers, in float64 for floats."""
    stacked = numpy.stack(inputs)
    if dtype == "bool":
        return stacked.any(axis=0) if reduction in ("Sum", "Max") else stacked.all(axis=0)
    if reduction == "Average" and dtype in FLOATS:
        return stacked.mean(axis=0)
    if reduction == "Average":
        total = wrapped(stacked.sum(axis=0), dtype)
        return numpy.sign(total) * (abs(total) // len(inputs))
    result = {"Sum": numpy.sum, "Min": numpy.min, "Max": numpy.max, "Product": numpy.prod}[reduction](
        stacked, axis=0
    )
    return result if dtype in FLOATS else wrapped(result, dtype)


def rounding(dtype: str) -> float:
    """Return the relative error of rounding to `dtype` once."""
    return {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}[dtype]


def smallest(dtype: str) -> float:
    """Return the smallest positive number of `dtype`."""
    return {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 5e-324}[dtype]


def assert_reduced(got: numpy.ndarray, reduction: str, inputs: Sequence[numpy.ndarray], dtype: str) -> None:
    """Fail unless `got` is the reduction of `inputs`.

    Integers, bool, Min and Max are exact. Sums and products of floats may lose what accumulating in float32
    (for halves and float32) or float64 loses, and one rounding to `dtype`.
    """
    expected = reduced(reduction, inputs, dtype)
    assert got.shape == expected.shape
    if dtype not in FLOATS or reduction in ("Min", "Max"):
        numpy.testing.assert_array_equal(got, expected)
        return
    magnitude = abs(expected) if reduction == "Product" else abs(numpy.stack(inputs)).sum(axis=0)
    accumulating = (len(inputs) + 1) * rounding("float64" if dtype == "float64" else "float32") * magnitude
    allowed = 1.01 * rounding(dtype) * abs(expected) + accumulating + smallest(dtype)
    worst = numpy.max(abs(got - expected) - allowed, initial=-1.0)
    assert worst <= 0, f"{reduction} of {dtype} is off by {worst} more than rounding allows"


def lengths(size: int) -> list[int]:
    """Return numbers of elements around those that are hard to share among `size` ranks."""
    return [0, 1, size - 1, size, size + 1, 100_003]
