"""Ranks that differ in any attribute of a call all get one error that says who sent what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from disagreement import assert_disagreement, assert_works, one_against_others, table_of
from front_ends import DTYPES, FRONT_ENDS
from harness.peers import Peers

import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3, 4)
Collective = Callable[[torch.Tensor, str], Any]

COLLECTIVES: dict[str, Collective] = {
    "allreduce": lambda tensor, name: hvd.allreduce(tensor, name=name, op=hvd.Sum),
    "allreduce_": lambda tensor, name: hvd.allreduce_(tensor, name=name, op=hvd.Sum),
    "allreduce_async": lambda tensor, name: hvd.synchronize(
        hvd.allreduce_async(tensor, name=name, op=hvd.Sum)
    ),
    "allreduce_async_": lambda tensor, name: hvd.synchronize(
        hvd.allreduce_async_(tensor, name=name, op=hvd.Sum)
    ),
    "broadcast": lambda tensor, name: hvd.broadcast(tensor, 0, name=name),
    "broadcast_": lambda tensor, name: hvd.broadcast_(tensor, 0, name=name),
    "broadcast_async": lambda tensor, name: hvd.synchronize(hvd.broadcast_async(tensor, 0, name=name)),
    "allgather": lambda tensor, name: hvd.allgather(tensor, name=name),
    "allgather_async": lambda tensor, name: hvd.synchronize(hvd.allgather_async(tensor, name=name)),
    "alltoall": lambda tensor, name: hvd.alltoall(tensor, [len(tensor), *[0] * (hvd.size() - 1)], name=name),
    "reducescatter": lambda tensor, name: hvd.reducescatter(tensor, name=name, op=hvd.Sum),
}
FIXED_SHAPE = [name for name in COLLECTIVES if name.startswith(("allreduce", "broadcast"))]


def extents(shape: tuple[object, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


@pytest.fixture(params=["first rank", "last rank"])
def odd(request: pytest.FixtureRequest, peers: Peers) -> int:
    """The rank that differs from the others."""
    return 0 if request.param == "first rank" else peers.size - 1


@pytest.mark.parametrize("collective", FIXED_SHAPE)
@pytest.mark.parametrize(
    ("odd_shape", "shape"),
    [
        ((100, 256), (200, 256)),
        ((2, 3), (3, 2)),
        ((2, 3), (6,)),
        ((4,), (5,)),
        ((), (1,)),
        ((0,), (1,)),
        ((0, 3), (3, 0)),
        ((1, 4), (4, 1)),
    ],
)
def test_shape(
    collective: str, odd_shape: tuple[int, ...], shape: tuple[int, ...], odd: int, peers: Peers
) -> None:
    mine = torch.ones(odd_shape if peers.rank == odd else shape)
    sent = one_against_others(odd, peers.size, {"shape": extents(odd_shape)}, {"shape": extents(shape)})
    assert_disagreement(
        peers, lambda: COLLECTIVES[collective](mine, "layer4.weight"), "layer4.weight", sent, [mine]
    )


@pytest.mark.parametrize("collective", ["allgather", "allgather_async"])
@pytest.mark.parametrize(("odd_shape", "shape"), [((2, 3), (2, 4)), ((2, 3), (2, 3, 1)), ((5,), (5, 1))])
def test_later_dimensions_of_allgather(
    collective: str, odd_shape: tuple[int, ...], shape: tuple[int, ...], odd: int, peers: Peers
) -> None:
    mine = torch.ones(odd_shape if peers.rank == odd else shape)
    shapes = [{"shape": extents(("*", *each[1:]))} for each in (odd_shape, shape)]
    sent = one_against_others(odd, peers.size, *shapes)
    assert_disagreement(peers, lambda: COLLECTIVES[collective](mine, "rows"), "rows", sent, [mine])


def test_scalar_in_an_allgather(odd: int, peers: Peers) -> None:
    for mine in (torch.tensor(1.0) if peers.rank == odd else torch.ones(3), torch.tensor(1.0)):
        with pytest.raises(HorovodInternalError, match=r"'scalar'.* scalar has no first dimension"):
            hvd.allgather(mine, name="scalar")
        assert_works(peers, "scalar")


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize(
    ("odd_dtype", "dtype"), [("float32", "float64"), ("float16", "bfloat16"), ("int32", "int64")]
)
def test_dtype(collective: str, odd_dtype: str, dtype: str, odd: int, peers: Peers) -> None:
    mine = torch.ones((3, 2), dtype=getattr(torch, odd_dtype if peers.rank == odd else dtype))
    sent = one_against_others(odd, peers.size, {"dtype": odd_dtype}, {"dtype": dtype})
    assert_disagreement(
        peers, lambda: COLLECTIVES[collective](mine, "conv.weight"), "conv.weight", sent, [mine]
    )


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "float32"])
def test_every_dtype_is_told_from_float32(dtype: str, peers: Peers) -> None:
    mine = torch.ones(4, dtype=getattr(torch, dtype) if peers.rank == 0 else torch.float32)
    sent = one_against_others(0, peers.size, {"dtype": dtype}, {"dtype": "float32"})
    assert_disagreement(peers, lambda: hvd.broadcast_(mine, 0, name="b"), "b", sent, [mine])


@pytest.mark.parametrize(
    "pair",
    [
        ("allreduce", "broadcast"),
        ("broadcast", "allgather"),
        ("allgather", "allreduce"),
        ("alltoall", "allgather"),
        ("reducescatter", "alltoall"),
        ("allreduce", "reducescatter"),
    ],
)
def test_kind_of_operation(pair: tuple[str, str], odd: int, peers: Peers) -> None:
    mine = torch.ones(4)
    kind = pair[0] if peers.rank == odd else pair[1]
    shapes = ["[*]" if each in ("allgather", "alltoall") else "[4]" for each in pair]
    rows = [{"operation": each} for each in pair]
    if shapes[0] != shapes[1]:
        rows = [{**row, "shape": shape} for row, shape in zip(rows, shapes, strict=True)]
    sent = one_against_others(odd, peers.size, *rows)
    assert_disagreement(peers, lambda: COLLECTIVES[kind](mine, "x"), "x", sent, [mine])


@pytest.mark.parametrize("collective", ["broadcast", "broadcast_", "broadcast_async"])
def test_root_rank(collective: str, odd: int, peers: Peers) -> None:
    mine = torch.full((4,), float(peers.rank))
    root = 0 if peers.rank == odd else 1
    function = getattr(hvd, collective)
    sent = one_against_others(odd, peers.size, {"root_rank": "0"}, {"root_rank": "1"})

    def call() -> None:
        result = function(mine, root, name="w")
        if collective.endswith("async"):
            hvd.synchronize(result)

    assert_disagreement(peers, call, "w", sent, [mine])


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("pair", [("Sum", "Average"), ("Min", "Max"), ("Product", "Sum")])
def test_reduce_op(pair: tuple[str, str], in_place: bool, odd: int, peers: Peers) -> None:
    mine = torch.full((4,), float(peers.rank))
    op = getattr(hvd, pair[0] if peers.rank == odd else pair[1])
    sent = one_against_others(odd, peers.size, {"op": pair[0]}, {"op": pair[1]})
    function = hvd.allreduce_ if in_place else hvd.allreduce
    assert_disagreement(peers, lambda: function(mine, name="g", op=op), "g", sent, [mine])


@pytest.mark.parametrize("factor", ["prescale_factor", "postscale_factor"])
def test_scale_factor(factor: str, odd: int, peers: Peers) -> None:
    mine = torch.full((4,), float(peers.rank))
    options = {factor: 0.5 if peers.rank == odd else 3.0}
    sent = one_against_others(odd, peers.size, {factor: "0.5"}, {factor: "3"})
    assert_disagreement(
        peers, lambda: hvd.allreduce_(mine, name="s", op=hvd.Sum, **options), "s", sent, [mine]
    )


def test_every_rank_differs(peers: Peers) -> None:
    mine = torch.ones(peers.rank + 1)
    sent = {str(rank): {"shape": f"[{rank + 1}]"} for rank in range(peers.size)}
    assert_disagreement(peers, lambda: hvd.allreduce_(mine, name="all"), "all", sent, [mine])


def test_several_attributes_at_once(odd: int, peers: Peers) -> None:
    mine = torch.ones(4) if peers.rank == odd else torch.ones(5, dtype=torch.float64)
    op = hvd.Min if peers.rank == odd else hvd.Max
    odd_sent = {"dtype": "float32", "shape": "[4]", "op": "Min"}
    sent = one_against_others(odd, peers.size, odd_sent, {"dtype": "float64", "shape": "[5]", "op": "Max"})
    assert_disagreement(peers, lambda: hvd.allreduce_(mine, name="m", op=op), "m", sent, [mine])


def test_front_ends_meet_under_one_name(peers: Peers) -> None:
    front = FRONT_ENDS[peers.rank % 2]
    result = front.hvd.allreduce(front.tensor([1, 2], "float32"), name="mixed", op=front.hvd.Sum)
    assert front.array(result).tolist() == [peers.size, 2 * peers.size]


def test_mismatch_after_the_name_was_used_rightly(odd: int, peers: Peers) -> None:
    for _ in range(3):
        assert_works(peers, "steady")
    mine = torch.ones(7 if peers.rank == odd else 5)
    sent = one_against_others(odd, peers.size, {"shape": "[7]"}, {"shape": "[5]"})
    assert_disagreement(
        peers, lambda: hvd.allreduce_(mine, name="steady", op=hvd.Sum), "steady", sent, [mine]
    )
    assert_works(peers, "steady")


def test_shape_that_changes_everywhere_is_no_mismatch(peers: Peers) -> None:
    for length in (3, 3, 9, 1, 0, 3, 200_000, 3):
        assert hvd.allreduce(torch.ones(length), name="changing", op=hvd.Sum).sum() == length * peers.size


def test_mismatch_among_many_correct_calls(odd: int, peers: Peers) -> None:
    handles = {}
    for number in range(30):
        length = 3 if number == 13 and peers.rank == odd else 2
        handles[number] = hvd.allreduce_async_(torch.ones(length), name=f"crowd.{number}", op=hvd.Sum)
    for number, handle in handles.items():
        if number == 13:
            with pytest.raises(HorovodInternalError, match=r"crowd\.13"):
                hvd.synchronize(handle)
        else:
            assert hvd.synchronize(handle).tolist() == [peers.size] * 2


def test_unnamed_calls_that_differ(odd: int, peers: Peers) -> None:
    mine = torch.ones(2 if peers.rank == odd else 3)
    with pytest.raises(HorovodInternalError, match="unnamed call") as caught:
        hvd.allreduce_(mine)
    peers.assert_same(str(caught.value))
    assert table_of(str(caught.value))[str(odd)]["shape"] == "[2]"
    assert (mine == 1).all()
    assert_works(peers, "afterwards")


def test_late_rank_gets_the_same_error(peers: Peers) -> None:
    mine = torch.ones(2 if peers.rank == 0 else 3)
    if peers.rank == 0:
        handle = hvd.allreduce_async_(mine, name="late")
        peers.wait()
    else:
        peers.wait()
        handle = hvd.allreduce_async_(mine, name="late")
    with pytest.raises(HorovodInternalError) as caught:
        hvd.synchronize(handle)
    assert table_of(str(caught.value))["0"]["shape"] == "[2]"
    assert_works(peers, "late")


def test_mismatch_is_repeatable(peers: Peers) -> None:
    for _ in range(50):
        with pytest.raises(HorovodInternalError, match="again"):
            hvd.allreduce(torch.ones(1 + peers.rank), name="again")
    assert_works(peers, "again")
