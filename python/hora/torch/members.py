"""The parameters of an optimizer, as their gradients are reduced."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING

import torch

from hora.torch.adapter import has_code
from hora.torch.memory import shared_empty
from hora.torch.parameters import StartGroup

if TYPE_CHECKING:
    from hora.torch.buckets import Bucket

__all__ = ["Member", "form_like", "shared_zeros"]

SMALL_BYTES = 1 << 16  # of a gradient that is copied as fast as it is reduced alone


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
            and gradient.is_cpu
            and not gradient.requires_grad
            and has_code(gradient.dtype)
            and (gradient.dtype, gradient.shape) == (parameter.dtype, parameter.shape)
        )

    def is_small(self) -> bool:
        """Return whether a bucket is the right place for the gradients."""
        return 0 < self.parameter.nbytes <= SMALL_BYTES

    def keep(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return the gradient as it is to be reduced alone: in shared memory, if that is worth a copy."""
        if gradient.nbytes <= SMALL_BYTES:
            return gradient
        is_kept = self.before is not None and self.before() is gradient
        if gradient is not self.section:
            self.section = self.parameter
            if is_kept and self.fits(gradient):
                self.section = shared_zeros(self.parameter.numel(), gradient.dtype)
                self.section = form_like(self.parameter, self.section, 0).copy_(gradient)
                self.parameter.grad = gradient = self.section
        self.before = weakref.ref(gradient)
        return gradient

    def description(self) -> tuple[object, ...]:
        """Return what ranks must have in common to have the same section."""
        parameter = self.parameter
        return self.label, str(parameter.dtype), tuple(parameter.shape), strides_of(parameter)


def form_like(parameter: torch.Tensor, flat: torch.Tensor, place: int) -> torch.Tensor:
    """Return the gradient that a part of a flat tensor makes; not a view, so that it may be detached."""
    gradient = torch.empty(0, dtype=flat.dtype)
    storage = flat.untyped_storage()
    return gradient.set_(storage, place, parameter.shape, strides_of(parameter))


def strides_of(parameter: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of the parameter's gradients: its own, if they leave no gaps."""
    return torch.empty_like(parameter, device="meta").stride()


def shared_zeros(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Return zeros in shared memory; in ordinary memory, which ranks may do differently, if that is full."""
    try:
        return shared_empty(length, dtype=dtype).zero_()
    except RuntimeError as error:
        logging.getLogger("hora").warning("gradients stay in ordinary memory: %s", error)
        return torch.zeros(length, dtype=dtype)
