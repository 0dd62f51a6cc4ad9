"""PyTorch tensors as seen by the collectives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hora import _core
from hora._adapter import Ref

__all__ = ["TorchAdapter", "dtype_code", "has_code"]

_CODES: dict[torch.dtype, int] = {getattr(torch, name): code for name, code in _core.DTYPES.items()}


def current_stream(device: int) -> int:
    """Return the stream on which this thread works on a GPU."""
    return torch.cuda.current_stream(device).cuda_stream


for _type in (torch.Tensor, torch.nn.Parameter):
    _core.register_tensor_type(_type, _CODES, stream_of=current_stream)


def require_tensor(value: object) -> torch.Tensor:
    """Return a dense tensor in host memory or on an NVIDIA GPU; anything else is refused."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"expected a torch.Tensor, not {type(value).__name__}")
    if value.layout is not torch.strided:
        raise ValueError("sparse tensors are not available yet; use a dense tensor")
    if not (value.is_cpu or is_on_gpu(value)):
        raise ValueError(f"tensors on {value.device} are not supported; move it with .cpu()")
    return value


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Return whether the tensor lies on an NVIDIA GPU."""
    return tensor.is_cuda and torch.version.hip is None


def has_repeated_elements(tensor: torch.Tensor) -> bool:
    """Return whether one memory place is several elements, as in an expanded tensor."""
    return any(tensor.stride(axis) == 0 and length > 1 for axis, length in enumerate(tensor.shape))


def dtype_code(dtype: torch.dtype) -> int:
    """Return the code of a dtype; one that we do not have is refused."""
    code = _CODES.get(dtype)
    if code is None:
        raise ValueError(f"tensors of {dtype} are not supported, only {', '.join(_core.DTYPES)}")
    return code


def has_code(dtype: torch.dtype) -> bool:
    """Return whether tensors of the dtype can be sent."""
    return dtype in _CODES


class TorchAdapter:
    """Adapter of PyTorch."""

    def contiguous(self, tensor: torch.Tensor, writable: bool = False) -> torch.Tensor:
        """Return the tensor itself, or a contiguous copy."""
        source = require_tensor(tensor)
        if source.is_contiguous() and not source.is_neg():
            return source
        if writable and has_repeated_elements(source):
            raise ValueError("elements of the tensor share memory, no in-place result can be written to it")
        return source.detach().resolve_neg().contiguous()

    def to_ref(self, tensor: torch.Tensor) -> Ref:
        """Describe the memory of a contiguous tensor."""
        return tensor.data_ptr(), tensor.shape, dtype_code(tensor.dtype)

    def device(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's GPU, -1 in host memory."""
        return -1 if tensor.is_cpu else tensor.device.index

    def stream(self, device: int) -> int:
        """Return the current stream of a GPU."""
        return current_stream(device)

    def address(self, tensor: torch.Tensor) -> int:
        """Return where the tensor's memory begins."""
        return tensor.data_ptr()

    def empty_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a new tensor, not filled."""
        return torch.empty_like(tensor, requires_grad=False)

    def zeros_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a new tensor of zeros."""
        return torch.zeros_like(tensor)

    def empty_rows(self, tensor: torch.Tensor, rows: int) -> torch.Tensor:
        """Return a new tensor of another number of rows, not filled."""
        return torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)

    def integers(self, values: list[int]) -> torch.Tensor:
        """Return a new 1-d tensor of int32."""
        return torch.tensor(values, dtype=torch.int32)

    def scaled(self, tensor: torch.Tensor, factor: float) -> torch.Tensor:
        """Return the tensor multiplied by a factor."""
        return tensor * factor

    def rows(self, tensor: torch.Tensor, start: int, stop: int) -> torch.Tensor:
        """Return a part of the first dimension."""
        return tensor[start:stop]

    def copy_into(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy values, keeping the target's strides."""
        with torch.no_grad():
            target.copy_(source)

    def from_output(self, output: _core.Output, like: torch.Tensor) -> torch.Tensor:
        """Wrap memory of the core."""
        if 0 in output.shape:
            return torch.empty(output.shape, dtype=like.dtype, device=like.device)
        if output.device >= 0:
            return torch.from_dlpack(output)  # type: ignore[attr-defined]
        return torch.frombuffer(output, dtype=like.dtype).view(output.shape)

    def dtype_name(self, tensor: torch.Tensor) -> str:
        """Return PyTorch's name of the dtype, without its package."""
        return str(tensor.dtype).rpartition(".")[2]

    def cast(self, tensor: torch.Tensor, dtype: str) -> torch.Tensor:
        """Convert to another dtype."""
        return tensor.to(getattr(torch, dtype))

    def differentiable(self, tensor: torch.Tensor) -> bool:
        """Return whether autograd records operations on the tensor."""
        return getattr(tensor, "requires_grad", False) and torch.is_grad_enabled()

    def record(
        self,
        tensors: list[torch.Tensor],
        forward: Callable[[list[torch.Tensor]], list[torch.Tensor]],
        backward: Callable[[list[torch.Tensor]], list[torch.Tensor]],
    ) -> list[torch.Tensor]:
        """Run as one operation of autograd."""
        return list(Recorded.apply(forward, backward, *tensors))  # type: ignore[no-untyped-call]


class Recorded(torch.autograd.Function):
    """A collective as an operation of autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        forward: Callable[[list[torch.Tensor]], list[torch.Tensor]],
        backward: Callable[[list[torch.Tensor]], list[torch.Tensor]],
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Run the collective and keep its gradient rule."""
        ctx.rule = backward
        results = forward(list(tensors))
        ctx.mark_non_differentiable(*(result for result in results if not result.is_floating_point()))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Apply the gradient rule."""
        return None, None, *ctx.rule(list(gradients))
