"""A tiny array class on the stand-in for CUDA's driver, and hora's front end for it.

It takes the place of ``torch.cuda``, which needs a GPU: arrays lie in memory that the host must not touch,
work is put on streams, and memory is given back as soon as an array is dropped.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy

from hora import _core
from hora._arguments import Average, Max, Min, Product, Sum
from hora._grouped import GroupedCollectives
from hora._handle import poll, synchronize
from hora._ops import Collectives
from hora.errors import HorovodInternalError

STAND_INS = Path(__file__).parents[2] / "build" / "dev" / "stand_ins"
SETTINGS = {
    "HORA_CUDA_LIBRARY": STAND_INS / "libhora_fake_cuda.so",
    "HORA_NCCL_LIBRARY": STAND_INS / "libhora_fake_nccl.so",
}
CODES = dict(_core.DTYPES)
NON_BLOCKING = 1


@dataclass(frozen=True)
class DeviceName:
    """What ``torch.device`` is to PyTorch."""

    index: int


class Driver:
    """The device of this rank and the stream on which its program works."""

    def __init__(self, number: int) -> None:
        self.library = ctypes.CDLL(str(SETTINGS["HORA_CUDA_LIBRARY"]))
        self.device = DeviceName(number)
        self.keep: list[Any] = []  # host memory that the stream has not read yet
        context, stream, event = (ctypes.c_void_p() for _ in range(3))
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        self.context = context
        with self:
            self.call("cuStreamCreateWithPriority", ctypes.byref(stream), NON_BLOCKING, 0)
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.stream, self.event = stream, event

    def __enter__(self) -> None:
        self.call("cuCtxPushCurrent_v2", self.context)

    def __exit__(self, *_: object) -> None:
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def call(self, name: str, *arguments: Any) -> None:
        result = getattr(self.library, name)(*arguments)
        if result:
            raise RuntimeError(f"{name}: error {result}")

    def allocate(self, nbytes: int) -> int:
        pointer = ctypes.c_uint64()
        with self:
            self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(nbytes))
        return pointer.value

    def free(self, address: int) -> None:
        with self:
            self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def upload(self, address: int, values: numpy.ndarray) -> None:
        self.keep.append(values)
        with self:
            self.call(
                "cuMemcpyHtoDAsync_v2",
                ctypes.c_uint64(address),
                ctypes.c_void_p(values.ctypes.data),
                ctypes.c_size_t(values.nbytes),
                self.stream,
            )

    def download(self, values: numpy.ndarray, address: int) -> None:
        with self:
            self.call(
                "cuMemcpyDtoHAsync_v2",
                ctypes.c_void_p(values.ctypes.data),
                ctypes.c_uint64(address),
                ctypes.c_size_t(values.nbytes),
                self.stream,
            )
        self.synchronize()

    def copy(self, to: int, source: int, nbytes: int) -> None:
        with self:
            self.call(
                "cuMemcpyDtoDAsync_v2",
                ctypes.c_uint64(to),
                ctypes.c_uint64(source),
                ctypes.c_size_t(nbytes),
                self.stream,
            )

    def synchronize(self) -> None:
        with self:
            self.call("cuEventRecord", self.event, self.stream)
            self.call("cuEventSynchronize", self.event)
        self.keep.clear()


@cache
def driver() -> Driver:
    """Return the device of this rank, one for each."""
    return Driver(int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")))


def storage_dtype(dtype: str) -> str:
    """Return the NumPy dtype whose bytes hold a dtype of ours."""
    return "uint16" if dtype == "bfloat16" else dtype


class DeviceArray:
    """An array on the device of this rank; it has what hora looks at in a tensor of PyTorch."""

    is_cpu = False
    is_cuda = True

    def __init__(self, shape: tuple[int, ...], dtype: str, owner: Any = None, address: int = 0) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.device = driver().device
        self._owner = owner
        self._address = address if owner is not None else driver().allocate(self.nbytes) if self.nbytes else 0

    def __del__(self) -> None:
        if self._owner is None and self._address:
            driver().free(self._address)

    @property
    def nbytes(self) -> int:
        return int(numpy.prod(self.shape, dtype=int)) * numpy.dtype(storage_dtype(self.dtype)).itemsize

    def data_ptr(self) -> int:
        return self._address

    def is_contiguous(self) -> bool:
        return True

    def is_neg(self) -> bool:
        return False

    def numpy(self) -> numpy.ndarray:
        """Return the values, those of bfloat16 as float32."""
        values = numpy.empty(self.shape, storage_dtype(self.dtype))
        if self.nbytes:
            driver().download(values, self._address)
        if self.dtype == "bfloat16":
            return (values.astype("uint32") << 16).view("float32")
        return values


def on_device(values: Any, dtype: str) -> DeviceArray:
    """Return a new array with values, which NumPy has to understand."""
    host = numpy.array(values)
    if dtype == "bfloat16":
        bits = host.astype("float32").view("uint32")
        host = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")
    host = numpy.ascontiguousarray(host.astype(storage_dtype(dtype))).reshape(host.shape)
    array = DeviceArray(host.shape, dtype)
    if array.nbytes:
        driver().upload(array.data_ptr(), host)
    return array


def current_stream(device: int) -> int:
    assert device == driver().device.index
    return driver().stream.value or 0


class DeviceAdapter:
    """Adapter of device arrays; without automatic differentiation."""

    def contiguous(self, tensor: DeviceArray, writable: bool = False) -> DeviceArray:
        if not isinstance(tensor, DeviceArray):
            raise TypeError(f"expected a DeviceArray, not {type(tensor).__name__}")
        return tensor

    def to_ref(self, tensor: DeviceArray) -> tuple[int, tuple[int, ...], int]:
        return tensor.data_ptr(), tensor.shape, CODES[tensor.dtype]

    def device(self, tensor: DeviceArray) -> int:
        return tensor.device.index

    def stream(self, device: int) -> int:
        return current_stream(device)

    def address(self, tensor: DeviceArray) -> int:
        return tensor.data_ptr()

    def empty_like(self, tensor: DeviceArray) -> DeviceArray:
        return DeviceArray(tensor.shape, tensor.dtype)

    def zeros_like(self, tensor: DeviceArray) -> DeviceArray:
        return on_device(numpy.zeros(tensor.shape), tensor.dtype)

    def empty_rows(self, tensor: DeviceArray, rows: int) -> DeviceArray:
        return DeviceArray((rows, *tensor.shape[1:]), tensor.dtype)

    def integers(self, values: list[int]) -> DeviceArray:
        return on_device(values, "int32")

    def scaled(self, tensor: DeviceArray, factor: float) -> DeviceArray:
        return on_device(tensor.numpy() * factor, tensor.dtype)

    def rows(self, tensor: DeviceArray, start: int, stop: int) -> DeviceArray:
        return on_device(tensor.numpy()[start:stop], tensor.dtype)

    def copy_into(self, target: DeviceArray, source: DeviceArray) -> None:
        driver().copy(target.data_ptr(), source.data_ptr(), target.nbytes)

    def from_output(self, output: _core.Output, like: DeviceArray) -> DeviceArray:
        assert output.device == like.device.index
        return DeviceArray(output.shape, like.dtype, output, output.address)

    def dtype_name(self, tensor: DeviceArray) -> str:
        return tensor.dtype

    def cast(self, tensor: DeviceArray, dtype: str) -> DeviceArray:
        return on_device(tensor.numpy(), dtype)

    def differentiable(self, tensor: object) -> bool:
        return False

    def record(self, tensors: Any, forward: Any, backward: Any) -> Any:
        raise NotImplementedError


def make_front_end() -> SimpleNamespace:
    """Return the public functions, as a front end's module has them."""
    _core.register_tensor_type(DeviceArray, CODES, use_table=False, stream_of=current_stream)
    single: Collectives[Any] = Collectives(DeviceAdapter())
    grouped: GroupedCollectives[Any] = GroupedCollectives(single)
    functions = {
        name: getattr(owner, name)
        for owner in (single, grouped)
        for name in dir(owner)
        if name.startswith(("all", "broadcast", "reduce", "grouped"))
    }
    return SimpleNamespace(
        **functions,
        poll=poll,
        synchronize=synchronize,
        Average=Average,
        Sum=Sum,
        Min=Min,
        Max=Max,
        Product=Product,
        HorovodInternalError=HorovodInternalError,
    )
