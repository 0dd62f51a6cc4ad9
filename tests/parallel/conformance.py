"""What every front end must do with a collective, whatever its tensors are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from front_ends import FrontEnd
from reference import assert_reduced, rank_values

import hora


@dataclass(frozen=True)
class Input:
    """What the ranks pass to a collective."""

    dtype: str
    values: list[numpy.ndarray]


Expect = Callable[[numpy.ndarray, Input], None]


def of_ranks(dtype: str, *shapes: tuple[int, ...] | int) -> Input:
    """Return an input of which each rank has its own values and shape."""
    return Input(dtype, [rank_values(dtype, shape, rank) for rank, shape in enumerate(shapes)])


def assert_equal(got: numpy.ndarray, expected: numpy.ndarray) -> None:
    assert got.shape == expected.shape
    numpy.testing.assert_array_equal(got, expected)


def shares(values: Sequence[numpy.ndarray], size: int, own: int) -> list[numpy.ndarray]:
    """Return the rows of each value that number `own` of `size` ranks gets; the first ranks get one more."""
    return [numpy.array_split(each, size)[own] for each in values]


def is_reduced(reduction: str) -> Expect:
    return lambda got, given: assert_reduced(got, reduction, given.values, given.dtype)


def is_scattered(reduction: str, size: int, own: int) -> Expect:
    return lambda got, given: assert_reduced(got, reduction, shares(given.values, size, own), given.dtype)


def is_gathered(got: numpy.ndarray, given: Input) -> None:
    assert_equal(got, numpy.concatenate(given.values))


def is_exchanged(size: int, own: int) -> Expect:
    return lambda got, given: assert_equal(got, numpy.concatenate(shares(given.values, size, own)))


def is_copied_from(number: int) -> Expect:
    return lambda got, given: assert_equal(got, given.values[number])


def assert_gives(
    front: FrontEnd,
    own: int,
    collective: str,
    inputs: Sequence[Input],
    expect: Expect,
    *arguments: Any,
    **options: Any,
) -> list[numpy.ndarray]:
    """Fail unless every form of a collective gives what `expect` checks; return the results.

    This rank has value number `own` of each input. Inputs stay as they are, but for those of calls in place.
    """
    found: list[numpy.ndarray] = []
    forms = front.forms(collective)
    for form in forms if inputs else []:
        # Where each call takes long, those of one tensor try a few inputs, of all dtypes, and groups all.
        is_costly = front.is_slow and "grouped" in forms[-1] and "grouped" not in form
        chosen = inputs[::7] if is_costly else inputs
        tensors = [front.tensor(given.values[own], given.dtype) for given in chosen]
        results = front.results(form, tensors, *arguments, **options)
        for tensor, result, given in zip(tensors, results, chosen, strict=True):
            assert front.dtype(result) == given.dtype
            expect(front.array(result), given)
            if form.endswith("_"):
                assert result is tensor
            else:
                assert_equal(front.array(tensor), given.values[own])
        found += map(front.array, results)
    return found


def assert_every_collective_works(
    front: FrontEnd, inputs: Sequence[Input], ranks: Sequence[int], own: int, **options: Any
) -> None:
    """Fail unless `ranks`, of which this is number `own`, get right results from all collectives.

    No value of an input may be a scalar.
    """
    size, last = len(ranks), len(ranks) - 1
    reduction = {"op": hora.Sum, **options}
    assert_gives(front, own, "allreduce", inputs, is_reduced("Sum"), **reduction)
    assert_gives(front, own, "reducescatter", inputs, is_scattered("Sum", size, own), **reduction)
    assert_gives(front, own, "allgather", inputs, is_gathered, **options)
    assert_gives(front, own, "broadcast", inputs, is_copied_from(last), ranks[last], **options)
    rows = {len(given.values[own]) for given in inputs}
    for count in rows:
        alike = [given for given in inputs if len(given.values[own]) == count]
        splits = [len(part) for part in numpy.array_split(numpy.empty(count), size)]
        assert_exchanges(front, alike, own, splits, lambda values: shares(values, size, own), **options)


def assert_exchanges(
    front: FrontEnd,
    inputs: Sequence[Input],
    own: int,
    splits: list[int],
    parts: Callable[[Sequence[numpy.ndarray]], list[numpy.ndarray]],
    **options: Any,
) -> None:
    """Fail unless every form of alltoall with `splits` brings what `parts` finds, one part from each rank."""
    for form in front.forms("alltoall"):
        tensors = [front.tensor(given.values[own], given.dtype) for given in inputs]
        results = front.results(form, tensors, splits, **options)
        for tensor, (rows, received), given in zip(tensors, results, inputs, strict=True):
            expected = parts(given.values)
            assert (front.dtype(rows), front.dtype(received)) == (given.dtype, "int32")
            assert_equal(front.array(rows), numpy.concatenate(expected))
            assert front.array(received).tolist() == [len(part) for part in expected]
            assert_equal(front.array(tensor), given.values[own])
