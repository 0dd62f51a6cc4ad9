"""Calls that ranks disagree about or refuse, for any front end."""

from __future__ import annotations

from typing import Any

import numpy
from front_ends import FrontEnd

import hora


class Call:
    """A call of a collective in any front end."""

    def __init__(
        self, form: str, values: Any, *arguments: Any, dtype: str = "float32", **options: Any
    ) -> None:
        self.form = form
        self._values = values
        self._arguments = arguments
        self._dtype = dtype
        self._options = options

    def make(self, front: FrontEnd, **options: Any) -> Any:
        """Make the call and return its result; a list of values is one tensor, a tuple several."""
        values = self._values if isinstance(self._values, tuple) else (self._values,)
        tensors = [front.tensor(each, self._dtype) for each in values]
        return front.results(self.form, tensors, *self._arguments, **self._options, **options)

    def __str__(self) -> str:
        return " ".join(map(str, (self.form, *self._options.values())))


def ones(*shape: int) -> Any:
    return numpy.ones(shape)


#: What one rank calls, what the others do, and what the error tells of both.
DISAGREEMENTS: dict[str, tuple[Call, Call, dict[str, str], dict[str, str]]] = {
    "shape": (
        Call("allreduce", ones(2, 3)),
        Call("allreduce", ones(3, 2)),
        {"shape": "[2,3]"},
        {"shape": "[3,2]"},
    ),
    "dtype": (
        Call("allreduce", ones(2), dtype="float16"),
        Call("allreduce", ones(2), dtype="int32"),
        {"dtype": "float16"},
        {"dtype": "int32"},
    ),
    "op": (
        Call("allreduce", ones(2), op=hora.Sum),
        Call("allreduce", ones(2), op=hora.Max),
        {"op": "Sum"},
        {"op": "Max"},
    ),
    "prescale_factor": (
        Call("allreduce", ones(2), prescale_factor=0.5),
        Call("allreduce", ones(2), prescale_factor=3.0),
        {"prescale_factor": "0.5"},
        {"prescale_factor": "3"},
    ),
    "postscale_factor": (
        Call("allreduce", ones(2), postscale_factor=0.5),
        Call("allreduce", ones(2), postscale_factor=3.0),
        {"postscale_factor": "0.5"},
        {"postscale_factor": "3"},
    ),
    "root_rank": (
        Call("broadcast", ones(2), 0),
        Call("broadcast", ones(2), 1),
        {"root_rank": "0"},
        {"root_rank": "1"},
    ),
    "shape to broadcast": (
        Call("broadcast", ones(2, 3), 0),
        Call("broadcast", ones(6), 0),
        {"shape": "[2,3]"},
        {"shape": "[6]"},
    ),
    "columns to gather": (
        Call("allgather", ones(2, 3)),
        Call("allgather", ones(2, 4)),
        {"shape": "[*,3]"},
        {"shape": "[*,4]"},
    ),
    "dimensions to gather": (
        Call("allgather", ones(5)),
        Call("allgather", ones(5, 1)),
        {"shape": "[*]"},
        {"shape": "[*,1]"},
    ),
    "columns to exchange": (
        Call("alltoall", ones(12, 3)),
        Call("alltoall", ones(12, 4)),
        {"shape": "[*,3]"},
        {"shape": "[*,4]"},
    ),
    "rows to scatter": (
        Call("reducescatter", ones(3)),
        Call("reducescatter", ones(4)),
        {"shape": "[3]"},
        {"shape": "[4]"},
    ),
    "op of reducescatter": (
        Call("reducescatter", ones(3), op=hora.Sum),
        Call("reducescatter", ones(3)),
        {"op": "Sum"},
        {"op": "Average"},
    ),
    "operation": (
        Call("allreduce", ones(3)),
        Call("broadcast", ones(3), 0),
        {"operation": "allreduce"},
        {"operation": "broadcast"},
    ),
    "several": (
        Call("allreduce", ones(4), op=hora.Min),
        Call("allreduce", ones(5), op=hora.Max, dtype="float64"),
        {"dtype": "float32", "shape": "[4]", "op": "Min"},
        {"dtype": "float64", "shape": "[5]", "op": "Max"},
    ),
    "number of tensors": (
        Call("grouped_allreduce", (ones(2), ones(2))),
        Call("grouped_allreduce", (ones(2), ones(2), ones(2))),
        {"number of tensors": "2"},
        {"number of tensors": "3"},
    ),
    "shape of one of several": (
        Call("grouped_allgather", (ones(2), ones(2, 3))),
        Call("grouped_allgather", (ones(2), ones(2, 2))),
        {"shape": "[*,3]"},
        {"shape": "[*,2]"},
    ),
}

RIGHT = Call("allreduce", ones(3), op=hora.Sum)
RIGHT_BOOL = Call("allreduce", ones(3), op=hora.Sum, dtype="bool")
RIGHT_BROADCAST = Call("broadcast", ones(3), 0)
RIGHT_EXCHANGE = Call("alltoall", ones(12))

#: What one rank does wrong, what its peers do at the same time, what it raises, and words of that.
REFUSALS: dict[str, tuple[Call, Call, type[Exception], str]] = {
    "complex": (
        Call("allreduce", ones(3), op=hora.Sum, dtype="complex64"),
        RIGHT,
        ValueError,
        "complex64.* not supported, only bool, uint8",
    ),
    "complex in a group": (
        Call("grouped_allreduce", (ones(3), ones(2)), dtype="complex64"),
        Call("grouped_allreduce", (ones(3), ones(2))),
        ValueError,
        "tensor 0 of 2: .*complex64",
    ),
    "average of bool": (
        Call("allreduce", ones(3), dtype="bool"),
        RIGHT_BOOL,
        ValueError,
        "op Average is not defined for bool",
    ),
    "factor of bool": (
        Call("allreduce", ones(3), op=hora.Sum, prescale_factor=2.0, dtype="bool"),
        RIGHT_BOOL,
        ValueError,
        "bool values cannot be scaled",
    ),
    "adaptive sum of integers": (
        Call("allreduce", ones(3), op=hora.Adasum, dtype="int32"),
        Call("allreduce", ones(3), op=hora.Sum, dtype="int32"),
        ValueError,
        "op Adasum is defined for floating-point numbers, not for int32",
    ),
    "unknown op": (
        Call("allreduce", ones(3), op=17),
        RIGHT,
        ValueError,
        "op must be Average, Sum, .*, not 17",
    ),
    "average and op": (
        Call("allreduce", ones(3), average=True, op=hora.Sum),
        RIGHT,
        ValueError,
        "op replaces average",
    ),
    "factor that is text": (
        Call("allreduce", ones(3), op=hora.Sum, prescale_factor="two"),
        RIGHT,
        ValueError,
        "could not convert string to float",
    ),
    "root that is too large": (
        Call("broadcast", ones(3), 99),
        RIGHT_BROADCAST,
        ValueError,
        "root_rank 99 is not one of the ranks 0",
    ),
    "negative root": (
        Call("broadcast", ones(3), -1),
        RIGHT_BROADCAST,
        ValueError,
        "root_rank -1 is not one of the ranks 0",
    ),
    "no process set": (
        Call("allreduce", ones(3), op=hora.Sum, process_set=3),
        RIGHT,
        ValueError,
        "process_set must be a ProcessSet, not int",
    ),
    "scalar to scatter": (
        Call("reducescatter", 1.0),
        Call("reducescatter", ones(3)),
        ValueError,
        "a scalar has no first dimension to scatter along",
    ),
    "rows that cannot be shared": (
        Call("alltoall", ones(13)),
        RIGHT_EXCHANGE,
        ValueError,
        "without splits, 13 rows cannot be shared equally among",
    ),
    "length of splits": (
        Call("alltoall", ones(12), [2] * 6),
        RIGHT_EXCHANGE,
        ValueError,
        "splits has 6 entries for",
    ),
    "splits that are no integers": (
        Call("alltoall", ones(12), [6.0, 6.0]),
        RIGHT_EXCHANGE,
        ValueError,
        "splits must be a 1-d tensor or list of integers",
    ),
    "splits in rows": (
        Call("alltoall", ones(12), [[6], [6]]),
        RIGHT_EXCHANGE,
        ValueError,
        "splits must be a 1-d tensor or list of integers",
    ),
}
