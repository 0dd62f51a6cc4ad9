"""Arrays on a GPU behind one face: tensors of PyTorch, or arrays on the stand-in for CUDA's driver.

Every program here begins with :func:`start`. On stand-ins, which HORA_CUDA_LIBRARY names, PyTorch is not
needed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
DTYPES = ("bool", *INTEGERS, *FLOATS)
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Arrays(Protocol):
    """What the programs need of a device."""

    hvd: Any
    """hora's functions for these arrays."""
    describe: str
    is_stand_in: bool

    def array(self, values: Any, dtype: str) -> Any:
        """Return a new array on the device; `values` may be anything that NumPy understands."""

    def values(self, array: Any) -> numpy.ndarray:
        """Return an array's values as bool, int64 or float64."""

    def synchronize(self) -> None:
        """Wait until the device has done everything that this thread's stream was given."""

    def call_on_stream(self, function: Callable[[], None]) -> None:
        """Let the stream call a function of the host, which may not call the driver."""

    def capture(self) -> Any:
        """Return a context in which a graph of unrelated work is captured; leaving it fails if that does."""

    def own_stream(self) -> Any:
        """Return a context in which this thread works on another stream than all others."""


class TorchArrays:
    """Tensors of PyTorch on this rank's GPU."""

    is_stand_in = False

    def __init__(self, local_rank: int) -> None:
        import torch

        import hora.torch

        self.torch = torch
        self.hvd: Any = hora.torch
        device = local_rank % torch.cuda.device_count()
        torch.cuda.set_device(device)
        self.device = torch.device("cuda", device)
        self.describe = f"{torch.cuda.get_device_name(device)}, PyTorch {torch.__version__}"
        self._functions: list[Any] = []  # called by the driver later

    def array(self, values: Any, dtype: str) -> Any:
        return self.torch.as_tensor(numpy.array(values)).to(self.device, getattr(self.torch, dtype))

    def values(self, array: Any) -> numpy.ndarray:
        host = array.detach().cpu()
        if host.is_floating_point():
            host = host.double()
        elif host.dtype != self.torch.bool:
            host = host.long()
        return host.numpy()

    def synchronize(self) -> None:
        self.torch.cuda.current_stream().synchronize()

    def call_on_stream(self, function: Callable[[], None]) -> None:
        called = HOST_FUNCTION(lambda _: function())
        self._functions.append(called)
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        result = ctypes.CDLL("libcuda.so.1").cuLaunchHostFunc(stream, called, None)
        if result:
            raise RuntimeError(f"cuLaunchHostFunc: error {result}")

    @contextmanager
    def capture(self) -> Iterator[None]:
        torch = self.torch
        start = torch.arange(1000.0, device=self.device)
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        # torch.cuda.graph would first wait until the device is idle.
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="global")
            try:
                result = start
                for _ in range(20):
                    result = result + 1
                yield
            finally:
                graph.capture_end()
        graph.replay()
        self.synchronize()
        if not torch.equal(result, start + 20):
            raise AssertionError("the captured graph computes something else")

    @contextmanager
    def own_stream(self) -> Iterator[None]:
        self.torch.cuda.set_device(self.device)  # of this thread
        with self.torch.cuda.stream(self.torch.cuda.Stream()):
            yield


class StandInArrays:
    """Arrays on the stand-in for CUDA's driver."""

    is_stand_in = True

    def __init__(self) -> None:
        sys.path.insert(0, str(Path(__file__).parents[1] / "parallel"))
        import device_arrays

        device_arrays.SETTINGS["HORA_CUDA_LIBRARY"] = Path(os.environ["HORA_CUDA_LIBRARY"])
        self.types = device_arrays
        self.hvd = device_arrays.make_front_end()
        self.driver = device_arrays.driver()
        self.describe = "stand-ins for CUDA's driver and NCCL"
        self._functions: list[Any] = []
        self._captured = self._new_stream()

    def _new_stream(self) -> ctypes.c_void_p:
        stream = ctypes.c_void_p()
        with self.driver:
            self.driver.call("cuStreamCreateWithPriority", ctypes.byref(stream), 1, 0)
        return stream

    def array(self, values: Any, dtype: str) -> Any:
        array = self.types.on_device(values, dtype)
        self.driver.synchronize()
        return array

    def values(self, array: Any) -> numpy.ndarray:
        values = array.numpy()
        return values.astype({"b": "bool", "f": "float64"}.get(values.dtype.kind, "int64"))

    def synchronize(self) -> None:
        self.driver.synchronize()

    def call_on_stream(self, function: Callable[[], None]) -> None:
        called = HOST_FUNCTION(lambda _: function())
        self._functions.append(called)
        with self.driver:
            self.driver.call("cuLaunchHostFunc", self.driver.stream, called, None)

    @contextmanager
    def capture(self) -> Iterator[None]:
        with self.driver:
            self.driver.call("fake_cuda_set_capturing", self._captured, True)
        before, self.driver.stream = self.driver.stream, self._captured
        try:
            yield
        finally:
            self.driver.stream = before
        with self.driver:
            self.driver.call("fake_cuda_set_capturing", self._captured, False)

    @contextmanager
    def own_stream(self) -> Iterator[None]:
        yield  # the stand-in has one for all threads


def start(arguments: argparse.Namespace) -> Arrays:
    """Start hora and return the arrays of this machine."""
    if arguments.share:
        # NCCL refuses two ranks on one GPU only where they say that they are on one host.
        os.environ["NCCL_HOSTID"] = "hora-" + os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    import hora

    hora.init()
    if "HORA_CUDA_LIBRARY" in os.environ:
        return StandInArrays()
    return TorchArrays(hora.local_rank())


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the arguments that all programs have."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--share", action="store_true", help="the ranks share one GPU: few launches")
    return made
