"""Every form of every collective, for all dtypes and awkward shapes, and errors, alike in all front ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from conformance import (
    Input,
    assert_equal,
    assert_every_collective_works,
    assert_exchanges,
    assert_gives,
    is_copied_from,
    is_exchanged,
    is_gathered,
    is_reduced,
    is_scattered,
    of_ranks,
    shares,
)
from disagreement import assert_works
from front_ends import FRONT_ENDS, INTEGERS, FrontEnd, combinations
from harness.peers import Peers
from reference import REDUCTIONS, assert_reduced, lengths, wrapped

import hora

RANKS = {"plain": (2, 3, 4), "tensorflow": (2, 3)}

of_all_front_ends = pytest.mark.parametrize("front", FRONT_ENDS, ids=str)
of_all_dtypes = pytest.mark.parametrize(("front", "dtype"), combinations(), ids=str)
of_numbers = pytest.mark.parametrize(
    ("front", "dtype"), [pair for pair in combinations() if pair[1] != "bool"], ids=str
)

SHAPES: list[tuple[int, ...]] = [(), (3, 1, 2), (0, 4), (2, 0), (1, 1, 1, 1, 5)]
TAILS: list[tuple[int, ...]] = [(), (1,), (0,), (2, 3), (4, 0, 2)]
# Rows of ranks 0, 1, ...
ROWS = [(0, 1, 5, 2), (0, 0, 0, 0), (3, 3, 3, 3), (0, 0, 7, 0), (7, 0, 0, 0), (1, 0, 0, 1), (2, 70_001, 0, 1)]
# Row r: what rank r sends to ranks 0, 1, ...; the corner of the job's size counts.
EXCHANGES: dict[str, list[list[int]]] = {
    "nothing": [[0] * 4] * 4,
    "equal": [[2] * 4] * 4,
    "nothing for rank 1": [[1, 0, 2, 3]] * 4,
    "nothing from rank 0": [[0] * 4, [1, 2, 0, 1], [3, 0, 1, 0], [0, 0, 0, 5]],
    "half takes no part": [[1, 2, 0, 0], [3, 4, 0, 0], [0] * 4, [0] * 4],
    "only to itself": [[3, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 4]],
    "documented": [[1, 2, 0, 0], [0, 1, 1, 0], [3, 0, 1, 0], [0, 0, 0, 1]],
    "long": [[20_000, 1, 0, 3], [0, 0, 30_000, 2], [1, 1, 1, 1], [0, 7, 0, 40_000]],
}
# Dtype and shape of each member of a group.
MIXED: list[tuple[str, tuple[int, ...]]] = [
    ("float32", (3,)),
    ("float64", (2, 2)),
    ("int64", (5,)),
    ("float32", (0, 4)),
    ("float32", (70_001,)),
    ("float16", (4, 1)),
    ("bool", (1,)),
]


def alike(peers: Peers, dtype: str, *shapes: tuple[int, ...] | int) -> list[Input]:
    """Return inputs that have one shape on all ranks."""
    return [of_ranks(dtype, *[shape] * peers.size) for shape in shapes]


@of_all_dtypes
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_allreduce(front: FrontEnd, dtype: str, reduction: str, peers: Peers) -> None:
    if (dtype, reduction) == ("bool", "Average"):
        return  # one of REFUSALS
    inputs = alike(peers, dtype, *SHAPES, *lengths(peers.size))
    op = getattr(front.hvd, reduction)
    results = assert_gives(front, peers.rank, "allreduce", inputs, is_reduced(reduction), op=op)
    peers.assert_same_bits(*results)


@of_numbers
@pytest.mark.parametrize(("before", "after"), [(2.0, 1.0), (1.0, 0.5), (0.5, 3.0), (-1.5, 1.0), (0.0, 1.0)])
def test_factors(front: FrontEnd, dtype: str, before: float, after: float, peers: Peers) -> None:
    if dtype == "uint8" and before < 0:
        return  # a negative number in an unsigned type has no meaning to check

    def expect(got: numpy.ndarray, given: Input) -> None:
        if dtype in INTEGERS:
            total = wrapped(sum(wrapped(numpy.trunc(each * before), dtype) for each in given.values), dtype)
            assert_equal(got, wrapped(numpy.trunc(total * after), dtype))
        else:
            assert_reduced(got, "Sum", [each * before * after for each in given.values], dtype)

    inputs = alike(peers, dtype, 1, 1001)
    options = {"op": hora.Sum, "prescale_factor": before, "postscale_factor": after}
    peers.assert_same_bits(*assert_gives(front, peers.rank, "allreduce", inputs, expect, **options))


@of_all_front_ends
@pytest.mark.parametrize("name", [None, "named"])
def test_average_is_the_default(front: FrontEnd, name: str | None, peers: Peers) -> None:
    inputs = alike(peers, "float64", 2 * peers.size)
    scattered = is_scattered("Average", peers.size, peers.rank)
    options = {} if name is None else {"name": name}
    for op, expect in {"allreduce": is_reduced("Average"), "reducescatter": scattered}.items():
        for form in front.forms(op):
            mine = front.tensor(inputs[0].values[peers.rank], "float64")
            expect(front.array(front.result(form, mine, **options)), inputs[0])


@of_all_dtypes
def test_allgather(front: FrontEnd, dtype: str, peers: Peers) -> None:
    ragged = [of_ranks(dtype, *((count, 4) for count in counts[: peers.size])) for counts in ROWS]
    more = [of_ranks(dtype, *((rank + 1, *tail) for rank in range(peers.size))) for tail in TAILS]
    peers.assert_same_bits(*assert_gives(front, peers.rank, "allgather", [*ragged, *more], is_gathered))


@of_all_dtypes
def test_broadcast(front: FrontEnd, dtype: str, peers: Peers) -> None:
    inputs = alike(peers, dtype, *SHAPES, *lengths(peers.size))
    for root in range(peers.size):
        assert_gives(front, peers.rank, "broadcast", inputs, is_copied_from(root), root)


@of_all_dtypes
@pytest.mark.parametrize("pattern", EXCHANGES)
def test_alltoall(front: FrontEnd, dtype: str, pattern: str, peers: Peers) -> None:
    splits = [row[: peers.size] for row in EXCHANGES[pattern][: peers.size]]
    given = of_ranks(dtype, *((sum(row), 3) for row in splits))
    parts = [
        numpy.split(each, numpy.cumsum(row)[:-1]) for each, row in zip(given.values, splits, strict=True)
    ]
    assert_exchanges(front, given, peers.rank, splits[peers.rank], [each[peers.rank] for each in parts])


@of_all_dtypes
def test_alltoall_without_splits(front: FrontEnd, dtype: str, peers: Peers) -> None:
    inputs = alike(peers, dtype, *((rows * peers.size, *tail) for rows in (0, 1, 3) for tail in TAILS))
    assert_gives(front, peers.rank, "alltoall", inputs, is_exchanged(peers.size, peers.rank))


@of_all_dtypes
@pytest.mark.parametrize("reduction", ["Average", "Sum"])
def test_reducescatter(front: FrontEnd, dtype: str, reduction: str, peers: Peers) -> None:
    if (dtype, reduction) == ("bool", "Average"):
        return
    rows = (0, 1, 3, 4, 11, 50_001)
    inputs = alike(peers, dtype, *((count, 2) for count in rows), *((5, *tail) for tail in TAILS))
    expect = is_scattered(reduction, peers.size, peers.rank)
    op = getattr(front.hvd, reduction)
    assert_gives(front, peers.rank, "reducescatter", inputs, expect, op=op)


@of_all_front_ends
def test_compression_together_with_factors(front: FrontEnd, peers: Peers) -> None:
    for form in ("allreduce", "grouped_allreduce", "reducescatter", "grouped_reducescatter"):
        ones = front.tensor(numpy.ones((2 * peers.size, 3)), "float32")
        options = {"op": hora.Sum, "compression": front.hvd.Compression.fp16}
        result = front.result(form, ones, prescale_factor=2, postscale_factor=0.25, **options)
        assert front.dtype(result) == "float32"
        rows = 2 if "scatter" in form else 2 * peers.size
        assert_equal(front.array(result), numpy.full((rows, 3), peers.size / 2))


@of_all_front_ends
@pytest.mark.parametrize("name", [None, "mixed"])
def test_groups_of_several_dtypes(front: FrontEnd, name: str | None, peers: Peers) -> None:
    inputs = [of_ranks(dtype, *[shape] * peers.size) for dtype, shape in MIXED]
    expected = {
        "allreduce": (is_reduced("Sum"), {"op": hora.Sum}),
        "allgather": (is_gathered, {}),
        "reducescatter": (is_scattered("Sum", peers.size, peers.rank), {"op": hora.Sum}),
    }
    for op, (expect, options) in expected.items():
        for form in (form for form in front.forms(op) if "grouped" in form):
            tensors = [front.tensor(given.values[peers.rank], given.dtype) for given in inputs]
            results = front.results(form, tensors, name=name, **options)
            for result, given in zip(results, inputs, strict=True):
                assert front.dtype(result) == given.dtype
                expect(front.array(result), given)


@of_all_front_ends
def test_more_than_fits_into_a_buffer_or_message(front: FrontEnd, restart: Any, peers: Peers) -> None:
    restart(HORA_FUSION_THRESHOLD=1000, HORA_PIECE_BYTES=700)
    inputs = alike(peers, "int64", (101 * peers.size, 3), (1, 2))
    assert_every_collective_works(front, inputs, range(peers.size), peers.rank)


@of_all_front_ends
def test_process_sets(front: FrontEnd, peers: Peers) -> None:
    for ranks in ([0], list(range(1, peers.size)), list(range(0, peers.size, 2))):
        members = front.hvd.add_process_set(ranks)
        inputs = [of_ranks(dtype, *[(7, 2)] * len(ranks)) for dtype in ("int64", "float32")]
        if members.included():
            assert_every_collective_works(front, inputs, ranks, members.rank(), process_set=members)
            front.hvd.barrier(process_set=members)
        else:
            for op in ("allreduce", "allgather", "alltoall", "reducescatter"):
                with pytest.raises(front.refused(ValueError), match="not a member"):
                    front.result(op, front.tensor([1.0] * len(ranks), "float32"), process_set=members)
        assert front.hvd.remove_process_set(members)
    assert_works(peers, "afterwards", front)


@pytest.mark.parametrize(("front", "dtype"), combinations(("bool", "int32", "float16", "float32")), ids=str)
def test_those_that_have_joined_contribute_nothing(front: FrontEnd, dtype: str, peers: Peers) -> None:
    others = Input(dtype, of_ranks(dtype, *[(5, 2)] * peers.size).values[1:])
    if peers.rank > 0:
        own = peers.rank - 1
        for reduction in REDUCTIONS:
            if (dtype, reduction) != ("bool", "Average"):
                op = getattr(front.hvd, reduction)
                assert_gives(front, own, "allreduce", [others], is_reduced(reduction), op=op)
        scattered = is_scattered("Sum", peers.size, peers.rank)
        assert_gives(front, own, "reducescatter", [others], scattered, op=hora.Sum)
        assert_gives(front, own, "allgather", [others], is_gathered)
        assert_gives(front, own, "broadcast", [others], is_copied_from(0), 1)
        splits = [len(part) for part in numpy.array_split(others.values[0], peers.size)]
        parts = shares(others.values, peers.size, peers.rank)
        assert_exchanges(front, others, own, splits, [parts[0][:0], *parts])
        with pytest.raises(front.disagreed, match="root_rank 0 has joined"):
            front.result("broadcast", front.tensor([1], dtype), 0)
        front.hvd.barrier()
    last = int(front.hvd.join())
    assert 0 <= last < peers.size
    peers.assert_same(last)
    assert_works(peers, "afterwards", front)


@pytest.mark.parametrize("front", [front for front in FRONT_ENDS if front.has_views], ids=str)
@pytest.mark.parametrize(
    "view",
    [lambda base: base[:, ::2], lambda base: base[1:5, 2:7], lambda base: base.T],
    ids=["columns", "block", "transposed"],
)
def test_views(front: FrontEnd, view: Callable[[Any], Any], peers: Peers) -> None:
    whole = of_ranks("int64", *[(6, 8)] * peers.size).values
    seen = [view(each) for each in whole]
    expected = {
        "allreduce": (sum(seen), [], {"op": hora.Sum}),
        "broadcast": (seen[1], [1], {}),
        "allgather": (numpy.concatenate(seen), [], {}),
        "reducescatter": (sum(shares(seen, peers.size, peers.rank)), [], {"op": hora.Sum}),
    }
    for op, (right, arguments, options) in expected.items():
        for form in front.forms(op):
            base = front.tensor(whole[peers.rank], "int64")
            result = front.result(form, view(base), *arguments, **options)
            assert_equal(front.array(result), right)
            after = whole[peers.rank].copy()
            if form.endswith("_"):
                view(after)[...] = right
            assert_equal(front.array(base), after)


@of_all_front_ends
def test_what_is_not_about_tensors_is_the_same(front: FrontEnd) -> None:
    for name in ("ReduceOp", "barrier", "add_process_set", "init", "rank", "size", "shutdown", "metrics"):
        assert getattr(front.hvd, name) is getattr(hora, name)
