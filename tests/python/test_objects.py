"""Objects of any kind, with one rank."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hora

VALUES: list[Any] = [None, 0, "", {"a": (1, [2])}, b"\0" * 10_000, list(range(10_000))]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("name", [None, "named"])
def test_values_come_back(value: Any, name: str | None) -> None:
    assert hora.broadcast_object(value, name=name) == value
    assert hora.allgather_object(value, name=name) == [value]


def test_functions_without_a_module_travel() -> None:
    factor = 3
    (double,) = hora.allgather_object(lambda value: factor * value)
    assert double(2) == 6


def test_unpicklable_object_is_an_error_that_names_the_rank() -> None:
    for call in (hora.broadcast_object, hora.allgather_object):
        with pytest.raises(ValueError, match=r"rank 0 cannot pickle.*TypeError") as raised:
            call(threading.Lock())
        assert isinstance(raised.value.__cause__, TypeError)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="root_rank"):
        hora.broadcast_object(1, root_rank=1)
    with pytest.raises(TypeError, match="integer"):
        hora.broadcast_object(1, root_rank="0")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name"):
        hora.broadcast_object(1, name=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name"):
        hora.allgather_object(1, name=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="process_set"):
        hora.broadcast_object(1, process_set=object())  # type: ignore[arg-type]
