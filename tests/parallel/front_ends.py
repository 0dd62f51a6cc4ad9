"""The front ends under test behind one face, so that a test can run on each that is installed."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy

import hora

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
DTYPES = ("bool", *INTEGERS, *FLOATS)

Raised = type[Exception] | tuple[type[Exception], ...]


@dataclass(frozen=True)
class FrontEnd:
    """A module of Hora and how its tensors are made and read; this one is for NumPy.

    Attributes
    ----------
    dtypes
        Those that tensors of this front end can have.
    disagreed, uninitialised
        What it raises where ranks differ, and before ``init()``.
    has_views
        Whether tensors can have strides.
    is_traced
        Whether a call is made a graph first, while no rank waits for others.
    is_slow
        Whether calls take so long that tests make fewer.
    """

    hvd: ModuleType
    dtypes: tuple[str, ...]
    disagreed: type[Exception] = hora.HorovodInternalError
    uninitialised: Raised = hora.NotInitializedError
    has_views: bool = True
    is_traced: bool = False
    is_slow: bool = False

    def tensor(self, values: Any, dtype: str) -> Any:
        """Return a new tensor of this front end; `values` may be anything that NumPy understands."""
        return numpy.array(values).astype(dtype)

    def array(self, tensor: Any) -> numpy.ndarray:
        """Return the values of a tensor exactly, as bool, int64 or float64."""
        kind = {"b": "bool", "f": "float64"}.get(tensor.dtype.kind, "int64")
        return numpy.array(tensor, dtype=kind)

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype)

    def forms(self, op: str) -> list[str]:
        """Return the names of all functions that do `op`: in place, asynchronous, for several tensors."""
        names = [
            f"{group}{op}{form}" for group in ("", "grouped_") for form in ("", "_", "_async", "_async_")
        ]
        return [name for name in names if hasattr(self.hvd, name)]

    def results(self, form: str, tensors: Sequence[Any], *arguments: Any, **options: Any) -> list[Any]:
        """Return what a collective gives for each of some tensors, all of which are under way at once."""
        function = getattr(self.hvd, form)
        if form.startswith("grouped"):
            begun = function(list(tensors), *arguments, **options)
            return list(self.hvd.synchronize(begun) if "async" in form else begun)
        calls = [function(tensor, *arguments, **options) for tensor in tensors]
        return [self.hvd.synchronize(call) for call in calls] if "async" in form else calls

    def result(self, form: str, tensor: Any, *arguments: Any, **options: Any) -> Any:
        """Return what a collective gives for a tensor."""
        return self.results(form, [tensor], *arguments, **options)[0]

    def refused(self, error: type[Exception]) -> Raised:
        """Return what a rank raises whose argument is wrong."""
        return error

    def text(self, error: BaseException) -> str:
        """Return what Hora says in an error."""
        return str(error)

    def __str__(self) -> str:
        return self.hvd.__name__


class TorchFrontEnd(FrontEnd):
    def tensor(self, values: Any, dtype: str) -> Any:
        import torch

        return torch.from_numpy(numpy.array(values)).to(getattr(torch, dtype), copy=True)

    def array(self, tensor: Any) -> numpy.ndarray:
        tensor = tensor.detach()
        return super().array((tensor.double() if tensor.is_floating_point() else tensor).numpy())

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype).removeprefix("torch.")


class TensorFlowFrontEnd(FrontEnd):
    def tensor(self, values: Any, dtype: str) -> Any:
        import tensorflow as tf

        return tf.cast(tf.constant(numpy.array(values)), tf.as_dtype(dtype))

    def array(self, tensor: Any) -> numpy.ndarray:
        kind = "float64" if tensor.dtype.is_floating else "bool" if tensor.dtype.is_bool else "int64"
        return numpy.array(tensor.numpy()).astype(kind)

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype.name)

    def forms(self, op: str) -> list[str]:
        """Return the names; those in place are for variables."""
        return [name for name in super().forms(op) if not name.endswith("_")]

    def refused(self, error: type[Exception]) -> Raised:
        import tensorflow as tf

        return (error, tf.errors.InvalidArgumentError)

    def text(self, error: BaseException) -> str:
        """Return an error's text without what TensorFlow puts around it."""
        return re.sub(
            r"^\{\{.*?\}\} |\n?\t \[\[\{\{.*| \[Op:[^\]]*\] name: .*$", "", str(error), flags=re.DOTALL
        )


class GraphFrontEnd(TensorFlowFrontEnd):
    """TensorFlow inside of ``tf.function``."""

    def results(self, form: str, tensors: Sequence[Any], *arguments: Any, **options: Any) -> list[Any]:
        import tensorflow as tf

        run: Callable[..., list[Any]] = super().results
        function = tf.function(lambda *inputs: run(form, inputs, *arguments, **options), autograph=False)
        return list(function(*tensors))

    def __str__(self) -> str:
        return f"{super().__str__()} in graphs"


def tensorflow_front_ends() -> list[FrontEnd]:
    """Return TensorFlow's, set up for the hardest case for whoever would wait in an operation."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import tensorflow as tf

    import hora.tensorflow

    tf.config.threading.set_inter_op_parallelism_threads(1)
    # TensorFlow's ops raise its own exceptions, see docs/guides/tensorflow.md.
    differ = tf.errors.FailedPreconditionError
    eager = TensorFlowFrontEnd(hora.tensorflow, DTYPES, disagreed=differ, has_views=False, is_slow=True)
    graph = GraphFrontEnd(
        hora.tensorflow,
        DTYPES,
        disagreed=differ,
        uninitialised=(differ, hora.NotInitializedError),
        has_views=False,
        is_slow=True,
        is_traced=True,
    )
    return [eager, graph]


NUMPY = FrontEnd(hora, tuple(dtype for dtype in DTYPES if dtype != "bfloat16"))
FRONT_ENDS = [NUMPY]
# One process has PyTorch or TensorFlow: importing both takes seconds.
if os.environ.get("TEST_LAUNCH") == "tensorflow":
    if importlib.util.find_spec("tensorflow") is not None:
        FRONT_ENDS = tensorflow_front_ends()
elif importlib.util.find_spec("torch") is not None:
    import hora.torch

    TORCH = TorchFrontEnd(hora.torch, DTYPES)
    FRONT_ENDS.append(TORCH)


def combinations(dtypes: tuple[str, ...] = DTYPES) -> list[tuple[FrontEnd, str]]:
    """Return all pairs of a front end and a dtype that it knows."""
    return [(front, dtype) for front in FRONT_ENDS for dtype in dtypes if dtype in front.dtypes]
