"""An error about ranks that differ says where each of them made the call."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from disagreement import assert_works, place_in, table_of
from harness.peers import Peers

import hora
import hora.torch as hvd
from hora.errors import HorovodInternalError

RANKS = (2, 3, 4)


place = functools.partial(place_in, Path(__file__))


def assert_places(peers: Peers, call: Callable[[], Any], first: str, others: str) -> str:
    """Fail unless `call` raises an error that tells where rank 0 and the others made it; return its text."""
    with pytest.raises(HorovodInternalError) as caught:
        call()
    text = str(caught.value)
    peers.assert_same(text)
    table = table_of(text)
    assert table["0"]["called at"].endswith(f"/{place(first)}"), text
    (row,) = (row for ranks, row in table.items() if ranks != "0")
    assert row["called at"].endswith(f"/{place(others)}"), text
    assert_works(peers, "x")
    return text


@pytest.mark.parametrize("difference", ["shape", "dtype", "root_rank", "op", "operation"])
def test_is_in_the_table(difference: str, peers: Peers) -> None:
    tensors = [torch.ones(2), torch.ones(2)]
    arguments: list[dict[str, Any]] = [{}, {}]
    functions: list[Callable[..., Any]] = [hvd.allreduce, hvd.allreduce]
    if difference == "shape":
        tensors[0] = torch.ones(3)
    elif difference == "dtype":
        tensors[0] = torch.ones(2, dtype=torch.int32)
    elif difference == "root_rank":
        functions = [hvd.broadcast, hvd.broadcast]
        arguments = [{"root_rank": 0}, {"root_rank": 1}]
    elif difference == "op":
        arguments = [{"op": hvd.Sum}, {"op": hvd.Max}]
    else:
        functions = [hvd.allreduce, hvd.allreduce_]
        functions[0] = lambda tensor, name: hvd.broadcast(tensor, 0, name=name)  # of an operation
    text = ""
    for _ in range(2):

        def call() -> None:
            if peers.rank == 0:
                functions[0](tensors[0], name="x", **arguments[0])  # of rank 0
            else:
                functions[1](tensors[1], name="x", **arguments[1])  # of the others

        text = assert_places(
            peers, call, "of an operation" if difference == "operation" else "of rank 0", "of the others"
        )
    assert f"'x': ranks differ in {difference}\n" in text


@pytest.mark.parametrize("name", ["x", None], ids=["named", "unnamed"])
def test_of_calls_that_were_right_before(name: str | None, peers: Peers) -> None:
    def call(length: int) -> None:
        hvd.allreduce(torch.ones(length), name=name)  # of a loop

    for length in (2, 3, 2, 3):
        call(length)

    def wrong() -> None:
        if peers.rank == 0:
            hvd.allreduce(torch.ones(2), name=name)  # outside of the loop
        else:
            call(3)

    assert_places(peers, wrong, "outside of the loop", "of a loop")


def test_is_where_the_call_was_made_not_where_it_is_waited_for(peers: Peers) -> None:
    handle = hvd.allreduce_async_(torch.ones(1 + (peers.rank == 0)), name="x")  # asynchronous
    assert_places(peers, lambda: hvd.synchronize(handle), "asynchronous", "asynchronous")


@pytest.mark.parametrize("kind", ["recorded", "grouped", "array", "group in place", "gather"])
def test_of_every_way_to_call(kind: str, peers: Peers) -> None:
    length = 1 + (peers.rank == 0)
    tensor = torch.ones(2, length)
    calls: dict[str, Callable[[], Any]] = {
        "recorded": lambda: hvd.allreduce(tensor.requires_grad_(), name="x"),  # recorded
        "grouped": lambda: hvd.grouped_allreduce([tensor, tensor], name="x"),  # grouped
        "array": lambda: hora.broadcast(numpy.ones(length), 0, name="x"),  # array
        "group in place": lambda: hvd.grouped_allreduce_([tensor, tensor], name="x"),  # group in place
        "gather": lambda: hvd.allgather(tensor, name="x"),  # gather
    }
    assert_places(peers, calls[kind], kind, kind)


def test_of_a_call_in_a_thread(peers: Peers) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            hvd.allreduce(torch.ones(1 + (peers.rank == 0)), name="x")  # in a thread
        except HorovodInternalError as error:
            errors.append(error)

    def call() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        raise errors[0]

    assert_places(peers, call, "in a thread", "in a thread")


def test_of_a_barrier_that_meets_something_else(peers: Peers) -> None:
    def call() -> None:
        if peers.rank == 0:
            hora.barrier()  # barrier
        else:
            hvd.allreduce(torch.ones(2))  # no barrier

    assert_places(peers, call, "barrier", "no barrier")


def test_of_process_sets_that_differ(peers: Peers) -> None:
    assert_places(
        peers,
        lambda: hvd.add_process_set([0] if peers.rank == 0 else [1]),  # process set
        "process set",
        "process set",
    )


def test_of_an_optimizer_is_its_step_or_the_backward_pass(peers: Peers) -> None:
    model = torch.nn.Linear(2 + (peers.rank == 0), 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), 0.1), named_parameters=model.named_parameters()
    )

    def call() -> None:
        model(torch.ones(1, 2 + (peers.rank == 0))).sum().backward()
        optimizer.step()

    with pytest.raises(HorovodInternalError) as caught:
        call()
    for row in table_of(str(caught.value)).values():
        assert f"/{Path(__file__).name}:" in row["called at"]


def test_of_a_refused_call(peers: Peers) -> None:
    with pytest.raises((HorovodInternalError, ValueError)) as caught:
        if peers.rank == 0:
            hvd.allreduce(torch.ones(2, dtype=torch.complex64), name="x")  # refused
        else:
            hvd.allreduce(torch.ones(2), name="x")  # not refused
    if peers.rank > 0:
        table = table_of(str(caught.value))
        assert table["0"]["call"] == "refused"
        assert table["0"]["called at"].endswith(f"/{place('refused')}")
    assert_works(peers, "x")


def test_of_code_that_is_made_again_and_again(peers: Peers) -> None:
    handles: list[Any] = []
    for number in range(5000):
        exec(compile("handles.append(hvd.allreduce_async_(torch.ones(1)))", f"cell {number}", "exec"))
    for handle in handles:
        hvd.synchronize(handle)
    source = "\n" * 41 + "hvd.allreduce(torch.ones(1 + (peers.rank == 0)), name='x')"
    with pytest.raises(HorovodInternalError) as caught:
        exec(compile(source, "cell of a notebook", "exec"))
    assert table_of(str(caught.value))["0"]["called at"] == "cell of a notebook:42"
    assert_works(peers, "x")


def test_of_code_whose_end_makes_calls(peers: Peers) -> None:
    # How many functions end differs between ranks, so each calls by itself.
    own = [hvd.add_process_set([rank]) for rank in range(peers.size)][peers.rank]
    handles: list[Any] = []

    def call(_: object) -> None:
        handles.append(hvd.allreduce_async_(torch.ones(1), process_set=own))

    ends = []
    for number in range(5000):
        source = "handles.append(hvd.allreduce_async_(torch.ones(1), process_set=own))"
        code = compile(source, f"cell {number}", "exec")
        ends.append(weakref.ref(code, call))
        exec(code)
    del code
    assert len(handles) > 5000
    for handle in handles:
        hvd.synchronize(handle)
    assert_works(peers, "x")
