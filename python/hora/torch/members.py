"""The parameters of an optimizer, as their gradients are reduced."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING

import torch

from hora.torch.adapter import has_code, is_on_gpu
from hora.torch.memory import shared_empty
from hora.torch.parameters import StartGroup

if TYPE_CHECKING:
    from hora.torch.buckets import Bucket

__all__ = ["Member", "form_like", "shared_zeros", "small_bytes"]

SMALL_BYTES = 1 << 16  # of a gradient that is copied as fast as it is reduced alone
SMALL_BYTES_ON_GPU = 1 << 25  # a copy there costs little beside what travels between GPUs


class Member:
    """A parameter whose gradients are reduced.

    Attributes
    ----------
    parameter : torch.Tensor
    label : str
        Its name in messages.
    group : StartGroup or None
        What it begins together with.
    alone : bool
        Its gradients were found to fit no bucket.
    bucket : Bucket or None
        What holds its gradients.
    before : weakref to torch.Tensor, or None
        The large gradient of the last round.
    section : torch.Tensor
        Its part of the bucket, ``offset`` bytes from its begin. Without a bucket:
        its large gradient in shared memory, or meaningless.
    """

    __slots__ = ("alone", "before", "bucket", "group", "label", "offset", "parameter", "section")

    def __init__(self, parameter: torch.Tensor, label: str, group: StartGroup | None) -> None:
        self.parameter = parameter
        self.label = label
        self.group = group
        self.alone = False
        self.before: weakref.ref[torch.Tensor] | None = None
        self.bucket: Bucket | None = None
        self.section = parameter
        self.offset = 0

    def fits(self, gradient: torch.Tensor) -> bool:
        """Return whether a section can take the place of such a gradient."""
        parameter = self.parameter
        return (
            type(gradient) is torch.Tensor
            and gradient.layout is torch.strided
            and gradient.device == parameter.device
            and (gradient.is_cpu or is_on_gpu(gradient))
            and not gradient.requires_grad
            and has_code(gradient.dtype)
            and (gradient.dtype, gradient.shape) == (parameter.dtype, parameter.shape)
        )

    def is_small(self) -> bool:
        """Return whether a bucket is the right place for the gradients."""
        return 0 < self.parameter.nbytes <= small_bytes(self.parameter)

    def keep(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return the gradient as it is to be reduced alone: in shared memory, if that is worth a copy."""
        if gradient.nbytes <= SMALL_BYTES or not gradient.is_cpu:
            return gradient
        is_kept = self.before is not None and self.before() is gradient
        if gradient is not self.section:
            self.section = self.parameter
            if is_kept and self.fits(gradient):
                self.section = shared_zeros(self.parameter.numel(), gradient.dtype, gradient.device)
                self.section = form_like(self.parameter, self.section, 0).copy_(gradient)
                self.parameter.grad = gradient = self.section
        self.before = weakref.ref(gradient)
        return gradient

    def description(self) -> tuple[object, ...]:
        """Return what ranks must have in common to have the same section."""
        parameter = self.parameter
        form = tuple(parameter.shape), strides_of(parameter)
        return self.label, str(parameter.dtype), parameter.device.type, *form


def small_bytes(parameter: torch.Tensor) -> int:
    """Return the size up to which a gradient goes with others."""
    return SMALL_BYTES if parameter.is_cpu else SMALL_BYTES_ON_GPU


def form_like(parameter: torch.Tensor, flat: torch.Tensor, place: int) -> torch.Tensor:
    """Return the gradient that a part of a flat tensor makes; not a view, so that it may be detached."""
    gradient = torch.empty(0, dtype=flat.dtype, device=flat.device)
    storage = flat.untyped_storage()
    return gradient.set_(storage, place, parameter.shape, strides_of(parameter))


def strides_of(parameter: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of the parameter's gradients: its own, if they leave no gaps."""
    return torch.empty_like(parameter, device="meta").stride()


def shared_zeros(length: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return zeros: on a GPU; in shared memory; or in ordinary memory, if that is full on this rank."""
    if device.type != "cpu":
        return torch.zeros(length, dtype=dtype, device=device)
    try:
        return shared_empty(length, dtype=dtype).zero_()
    except RuntimeError as error:
        logging.getLogger("hora").warning("gradients stay in ordinary memory: %s", error)
        return torch.zeros(length, dtype=dtype)
