"""Gradients that are reduced one by one."""

from __future__ import annotations

import contextlib

import torch

from hora.errors import HorovodInternalError
from hora.torch.gradients import GradientRule, Pending
from hora.torch.members import Member
from hora.torch.streams import GradientStreams

__all__ = ["LoneGradients"]

# So many gradients, or so many bytes, are worth a call into the core.
MOST_COLLECTED = 32
MOST_COLLECTED_BYTES = 1 << 20


class LoneGradients:
    """The gradients of a round that are reduced one by one, each under its parameter's name.

    Attributes
    ----------
    pending : dict of int to Pending
        By ids of parameters.
    """

    def __init__(self, rule: GradientRule) -> None:
        self.pending: dict[int, Pending] = {}
        self._rule = rule
        self._sparse_dims: dict[int, int] = {}
        self._collected: list[Pending] = []  # those of pending that have not been begun
        self._collected_bytes = 0
        self._streams = GradientStreams()

    def start(self, member: Member) -> None:
        """Begin to reduce the parameter's gradient, soon if it is small; a missing one is zero."""
        parameter, label = member.parameter, member.label
        key = id(parameter)
        gradient = parameter.grad
        if gradient is None:
            gradient = parameter.grad = self._zero_gradient(parameter)
        if self._rule.is_plain(gradient):
            self.pending[key] = self._collect(Pending(member.keep(gradient), label))
            return
        announced = key in self._sparse_dims
        if gradient.is_sparse:
            self._sparse_dims[key] = gradient.sparse_dim()
        self.pending[key] = self._rule.start(parameter, label, announced=announced)

    def begin_collected(self) -> None:
        """Begin what :meth:`start` has put aside."""
        if self._collected:
            self._streams.join()
            collected, self._collected, self._collected_bytes = self._collected, [], 0
            self._rule.start_plain(collected)

    def drop(self, key: int) -> None:
        """Wait for a reduction whose result nobody wants."""
        self.begin_collected()
        with contextlib.suppress(HorovodInternalError):
            self.pending.pop(key).finish()

    def take_begun(self) -> list[Pending]:
        """Return all reductions, which are under way now, and begin a new round."""
        self.begin_collected()
        begun = list(self.pending.values())
        self.pending.clear()
        return begun

    def _collect(self, pending: Pending) -> Pending:
        """Put a small gradient aside, to begin several with one call; each call costs as much as a few."""
        self._collected.append(pending)
        self._streams.note(pending.gradient)
        self._collected_bytes += pending.gradient.nbytes
        if len(self._collected) >= MOST_COLLECTED or self._collected_bytes >= MOST_COLLECTED_BYTES:
            self.begin_collected()
        return pending

    def _zero_gradient(self, parameter: torch.Tensor) -> torch.Tensor:
        """Return a gradient of zeros; without entries if the parameter's gradients were sparse before."""
        sparse_dim = self._sparse_dims.get(id(parameter))
        zero = torch.zeros_like(parameter, requires_grad=False)
        return zero if sparse_dim is None else zero.to_sparse(sparse_dim)
