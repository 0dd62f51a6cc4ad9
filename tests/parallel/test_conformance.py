"""Every form of every collective, for all dtypes and awkward shapes, and errors, alike in all front ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from disagreement import assert_disagreement, assert_works, one_against_others
from front_ends import DTYPES, FLOATS, FRONT_ENDS, INTEGERS, FrontEnd
from harness.peers import Peers
from reference import REDUCTIONS, assert_reduced, lengths, wrapped
from wrong_calls import DISAGREEMENTS, REFUSALS, Call

import hora

RANKS = {"plain": (2, 3, 4), "tensorflow": (2, 3)}

of_all_front_ends = pytest.mark.parametrize("front", FRONT_ENDS, ids=str)


def of_dtypes(*dtypes: str) -> pytest.MarkDecorator:
    """Run a test for each dtype, or for all together where calls take long."""
    cases = []
    for front in FRONT_ENDS:
        known = tuple(dtype for dtype in dtypes if dtype in front.dtypes)
        groups = [known] if front.is_slow else [(dtype,) for dtype in known]
        cases += [
            pytest.param(front, group, id=f"{front}-{group[0] if len(group) == 1 else 'dtypes'}")
            for group in groups
        ]
    return pytest.mark.parametrize(("front", "dtypes"), cases)


of_all_dtypes = of_dtypes(*DTYPES)
of_numbers = of_dtypes(*INTEGERS, *FLOATS)

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


Dtypes = tuple[str, ...]


def alike(peers: Peers, dtypes: Dtypes, *shapes: tuple[int, ...] | int) -> list[Input]:
    """Return inputs that have one shape on all ranks."""
    return [of_ranks(dtype, *[shape] * peers.size) for dtype in dtypes for shape in shapes]


def reducible(reduction: str, dtypes: Dtypes) -> Dtypes:
    """Return the dtypes without bool for Average, which is one of REFUSALS."""
    return tuple(dtype for dtype in dtypes if (dtype, reduction) != ("bool", "Average"))


@of_all_dtypes
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_allreduce(front: FrontEnd, dtypes: Dtypes, reduction: str, peers: Peers) -> None:
    inputs = alike(peers, reducible(reduction, dtypes), *SHAPES, *lengths(peers.size))
    op = getattr(front.hvd, reduction)
    results = assert_gives(front, peers.rank, "allreduce", inputs, is_reduced(reduction), op=op)
    peers.assert_same_bits(*results)


@of_numbers
@pytest.mark.parametrize(("before", "after"), [(2.0, 1.0), (1.0, 0.5), (0.5, 3.0), (-1.5, 1.0), (0.0, 1.0)])
def test_factors(front: FrontEnd, dtypes: Dtypes, before: float, after: float, peers: Peers) -> None:
    def expect(got: numpy.ndarray, given: Input) -> None:
        if given.dtype in FLOATS:
            return assert_reduced(got, "Sum", [each * before * after for each in given.values], given.dtype)
        scaled = [wrapped(numpy.trunc(each * before), given.dtype) for each in given.values]
        total = wrapped(sum(scaled), given.dtype)
        return assert_equal(got, wrapped(numpy.trunc(total * after), given.dtype))

    # A negative number in an unsigned type has no meaning to check.
    meant = tuple(dtype for dtype in dtypes if dtype != "uint8" or before >= 0)
    inputs = alike(peers, meant, 1, 1001)
    options = {"op": hora.Sum, "prescale_factor": before, "postscale_factor": after}
    peers.assert_same_bits(*assert_gives(front, peers.rank, "allreduce", inputs, expect, **options))


@of_all_front_ends
@pytest.mark.parametrize("name", [None, "named"])
def test_average_is_the_default(front: FrontEnd, name: str | None, peers: Peers) -> None:
    inputs = alike(peers, ("float64",), 2 * peers.size)
    scattered = is_scattered("Average", peers.size, peers.rank)
    options = {} if name is None else {"name": name}
    for op, expect in {"allreduce": is_reduced("Average"), "reducescatter": scattered}.items():
        for form in front.forms(op):
            mine = front.tensor(inputs[0].values[peers.rank], "float64")
            expect(front.array(front.result(form, mine, **options)), inputs[0])


@of_all_front_ends
def test_integers_wrap_and_keep_every_digit(front: FrontEnd, peers: Peers) -> None:
    large = {"uint8": 100, "int8": -100, "int16": 20_000, "int32": 2**30 - 1, "int64": 2**60 + 1}
    inputs = [Input(dtype, [numpy.array([value])] * peers.size) for dtype, value in large.items()]
    for reduction in REDUCTIONS:
        op = getattr(front.hvd, reduction)
        assert_gives(front, peers.rank, "allreduce", inputs, is_reduced(reduction), op=op)


@of_all_dtypes
def test_allgather(front: FrontEnd, dtypes: Dtypes, peers: Peers) -> None:
    every = range(peers.size)
    shapes = [[(counts[rank], 4) for rank in every] for counts in ROWS]
    shapes += [[(rank + 1, *tail) for rank in every] for tail in TAILS]
    inputs = [of_ranks(dtype, *of_rank) for dtype in dtypes for of_rank in shapes]
    peers.assert_same_bits(*assert_gives(front, peers.rank, "allgather", inputs, is_gathered))


@of_all_dtypes
def test_broadcast(front: FrontEnd, dtypes: Dtypes, peers: Peers) -> None:
    inputs = alike(peers, dtypes, *SHAPES, *lengths(peers.size))
    for root in range(peers.size):
        chosen = inputs[root :: peers.size] if front.is_slow else inputs
        assert_gives(front, peers.rank, "broadcast", chosen, is_copied_from(root), root)


@of_all_dtypes
@pytest.mark.parametrize("pattern", EXCHANGES)
def test_alltoall(front: FrontEnd, dtypes: Dtypes, pattern: str, peers: Peers) -> None:
    splits = [row[: peers.size] for row in EXCHANGES[pattern][: peers.size]]
    inputs = [of_ranks(dtype, *((sum(row), 3) for row in splits)) for dtype in dtypes]

    def parts(values: Sequence[numpy.ndarray]) -> list[numpy.ndarray]:
        borders = [numpy.cumsum(row)[:-1] for row in splits]
        return [numpy.split(*each)[peers.rank] for each in zip(values, borders, strict=True)]

    assert_exchanges(front, inputs, peers.rank, splits[peers.rank], parts)


@of_all_dtypes
def test_alltoall_without_splits(front: FrontEnd, dtypes: Dtypes, peers: Peers) -> None:
    inputs = alike(peers, dtypes, *((rows * peers.size, *tail) for rows in (0, 1, 3) for tail in TAILS))
    assert_gives(front, peers.rank, "alltoall", inputs, is_exchanged(peers.size, peers.rank))


@of_all_dtypes
@pytest.mark.parametrize("reduction", ["Average", "Sum"])
def test_reducescatter(front: FrontEnd, dtypes: Dtypes, reduction: str, peers: Peers) -> None:
    shapes = [*((rows, 2) for rows in (0, 1, 3, 4, 11, 50_001)), *((5, *tail) for tail in TAILS)]
    inputs = alike(peers, reducible(reduction, dtypes), *shapes)
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
    inputs = alike(peers, ("int64",), (101 * peers.size, 3), (1, 2))
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


@of_dtypes("bool", "int32", "float16", "float32")
def test_those_that_have_joined_contribute_nothing(front: FrontEnd, dtypes: Dtypes, peers: Peers) -> None:
    others = [Input(given.dtype, given.values[1:]) for given in alike(peers, dtypes, (5, 2))]
    if peers.rank > 0:
        own = peers.rank - 1
        for reduction in REDUCTIONS:
            inputs = [given for given in others if given.dtype in reducible(reduction, dtypes)]
            op = getattr(front.hvd, reduction)
            assert_gives(front, own, "allreduce", inputs, is_reduced(reduction), op=op)
        scattered = is_scattered("Sum", peers.size, peers.rank)
        assert_gives(front, own, "reducescatter", others, scattered, op=hora.Sum)
        assert_gives(front, own, "allgather", others, is_gathered)
        assert_gives(front, own, "broadcast", others, is_copied_from(0), 1)

        def parts(values: Sequence[numpy.ndarray]) -> list[numpy.ndarray]:
            found = shares(values, peers.size, peers.rank)
            return [found[0][:0], *found]

        splits = [len(part) for part in numpy.array_split(others[0].values[0], peers.size)]
        assert_exchanges(front, others, own, splits, parts)
        with pytest.raises(front.disagreed, match="root_rank 0 has joined"):
            front.result("broadcast", front.tensor([1], dtypes[0]), 0)
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


@pytest.fixture(params=["first rank", "last rank"])
def odd(request: pytest.FixtureRequest, peers: Peers) -> int:
    """The rank that differs from the others."""
    return 0 if request.param == "first rank" else peers.size - 1


@of_all_front_ends
@pytest.mark.parametrize("case", DISAGREEMENTS)
def test_ranks_that_disagree_get_one_error(front: FrontEnd, case: str, odd: int, peers: Peers) -> None:
    other, right, *sent = DISAGREEMENTS[case]
    call = other if peers.rank == odd else right
    told = one_against_others(odd, peers.size, *sent)
    assert_disagreement(peers, lambda: call.make(front, name="x"), "x", told, front=front)


@of_all_front_ends
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("case", REFUSALS)
def test_what_one_rank_refuses_fails_on_all(front: FrontEnd, case: str, named: bool, peers: Peers) -> None:
    wrong, right, error, words = REFUSALS[case]
    options = {"name": "refused"} if named else {}
    everyone = set(range(peers.size))
    for erring in [everyone] if front.is_traced else [everyone, *({rank} for rank in everyone)]:
        if peers.rank in erring:
            with pytest.raises(front.refused(error), match=words) as caught:
                wrong.make(front, **options)
        else:
            with pytest.raises(
                front.disagreed, match=rf"rank {min(erring)} refused the call \(.*{words}"
            ) as caught:
                right.make(front, **options)
        label = wrong.form.removeprefix("grouped_") + (" 'refused': " if named else "")
        assert label in front.text(caught.value) or front.is_traced
        assert_works(peers, "refused", front)


@of_all_front_ends
def test_every_form_refuses(front: FrontEnd, peers: Peers) -> None:
    for form in front.forms("allreduce"):
        with pytest.raises(front.refused(ValueError), match="op Average is not defined for bool"):
            front.result(form, front.tensor([True], "bool"), name="x")
    assert_works(peers, "x", front)


@of_all_front_ends
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call("allgather", 1.0), "scalar has no first dimension to gather along"),
        (Call("alltoall", 1.0), "scalar has no first dimension to share out"),
        (Call("reducescatter", [1.0], op=hora.Min), "op must be Sum or Average, not Min"),
        (Call("reducescatter", [1.0], op=hora.Product), "op must be Sum or Average, not Product"),
    ],
    ids=str,
)
def test_what_no_rank_can_do(front: FrontEnd, call: Call, words: str, peers: Peers) -> None:
    with pytest.raises(front.disagreed, match=f"{call.form} 'x': .*{words}") as caught:
        call.make(front, name="x")
    peers.assert_same(front.text(caught.value))
    assert_works(peers, "x", front)


@pytest.mark.parametrize("front", [front for front in FRONT_ENDS if hasattr(front.hvd, "poll")], ids=str)
def test_a_name_is_used_once_at_a_time(front: FrontEnd, peers: Peers) -> None:
    for op, arguments in {"allreduce": [], "allgather": [], "broadcast": [0]}.items():
        mine = front.tensor([1.0], "float32")
        first = getattr(front.hvd, f"{op}_async")(mine, *arguments, name="x")
        for form in front.forms("allreduce"):
            with pytest.raises(ValueError, match="'x': an operation with this name"):
                front.result(form, front.tensor([1.0], "float32"), name="x")
        front.hvd.synchronize(first)
        assert_works(peers, "x", front)


@of_all_front_ends
def test_nothing_works_before_init(front: FrontEnd, peers: Peers) -> None:
    hora.shutdown()
    for form, arguments in {
        "allreduce": [],
        "allgather": [],
        "broadcast": [0],
        "alltoall": [],
        "reducescatter": [],
    }.items():
        with pytest.raises(front.uninitialised, match="call init"):
            front.result(form, front.tensor([1.0], "float32"), *arguments)
    hora.init()
    assert_works(peers, "afterwards", front)
