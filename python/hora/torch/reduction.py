"""Reducing the gradients of one optimizer while the backward pass goes on."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from hora import _core
from hora._handle import Handle, synchronize, synchronize_all
from hora._ops import refuse
from hora.compression import Compressor, NoneCompressor
from hora.errors import HorovodInternalError
from hora.torch.collectives import allreduce_async_

__all__ = ["GradientReduction", "parameter_names"]

Groups = list[dict[str, Any]]


def parameter_names(
    groups: Groups, named_parameters: Iterable[tuple[str, torch.Tensor]] | None
) -> dict[torch.Tensor, str]:
    """Return the names to use, checked as Horovod does; empty when parameters are to be numbered."""
    if named_parameters is None:
        return {
            parameter: name
            for group in groups
            for parameter, name in zip(group["params"], group.get("param_names", ()), strict=False)
        }
    pairs = list(named_parameters)
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise ValueError(
            "named_parameters must be tuples of name and parameter, as model.named_parameters() gives them"
        )
    duplicates = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if duplicates:
        raise ValueError(f"named_parameters has names given more than once: {', '.join(duplicates)}")
    names = {parameter: name for name, parameter in pairs}
    unnamed = [tuple(p.shape) for group in groups for p in group["params"] if p not in names]
    if unnamed:
        raise ValueError(f"named_parameters lacks parameters of the optimizer, of shapes {unnamed}")
    return names


class Pending:
    """A gradient under reduction; ``gradient`` is the tensor that gets the result."""

    __slots__ = ("ctx", "gradient", "handle")

    def __init__(self, gradient: torch.Tensor, handle: Handle[torch.Tensor], ctx: Any) -> None:
        self.gradient = gradient
        self.handle = handle
        self.ctx = ctx


class GradientReduction:
    """Starts each gradient's allreduce from a hook and waits for all of them.

    A *round* reduces every parameter that needs a gradient exactly once, on every rank: those whose hook
    fired, and in :meth:`synchronize` the others, whose missing gradient counts as zero. So no rank ever
    waits for a gradient that another rank does not have.

    Used by the thread that runs backward passes and by the one that steps, never at the same time.
    """

    def __init__(
        self, prefix: str, names: dict[torch.Tensor, str], compression: Compressor, op: int, active: bool
    ) -> None:
        self._prefix = prefix
        self._names = names
        self._compression = compression
        self._op = op
        self._active = active
        self._labels: dict[int, str] = {}  # by id, which stays unique because _parameters holds them
        self._parameters: list[torch.Tensor] = []
        self._hooks: dict[int, RemovableHandle] = {}
        self._pending: dict[int, Pending] = {}
        self.synchronized = False

    def watch(self, groups: Groups) -> None:
        """Label the parameters not seen before and hook those that need a gradient now."""
        if not self._active:
            return
        for group in groups:
            for parameter in group["params"]:
                key = id(parameter)
                if key not in self._labels:
                    name = self._names.get(parameter, f"#{len(self._parameters)}")
                    self._labels[key] = f"{self._prefix}/{name}"
                    self._parameters.append(parameter)
                if parameter.requires_grad and key not in self._hooks:
                    self._hooks[key] = parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def synchronize(self, groups: Groups) -> None:
        """Complete the round; does nothing when the last one is complete and no gradient came since."""
        if not self._active or (self.synchronized and not self._pending):
            return
        self.watch(groups)
        for group in groups:
            for parameter in group["params"]:
                if parameter.requires_grad and id(parameter) not in self._pending:
                    self._start(parameter)
        pending = self._take_pending()
        results = synchronize_all([each.handle for each in pending])
        if self._compression is not NoneCompressor:
            for each, result in zip(pending, results, strict=True):
                with torch.no_grad():
                    each.gradient.copy_(self._compression.decompress(result, each.ctx))
        self.synchronized = True

    def require_synchronized(self) -> None:
        """Refuse a step that would use gradients while they are being reduced."""
        if self._pending:
            raise AssertionError(
                "optimizer.step() inside skip_synchronize() while gradients are being reduced; "
                "call optimizer.synchronize() before"
            )

    def start_over(self) -> None:
        """Begin a new round after a step."""
        self.synchronized = False

    def discard(self) -> None:
        """Wait for what goes on, drop its results and begin a new round."""
        self.synchronized = False
        with contextlib.suppress(HorovodInternalError):
            synchronize_all([each.handle for each in self._take_pending()])

    def close(self) -> None:
        """Leave the model alone from now on."""
        for hook in self._hooks.values():
            hook.remove()

    def _take_pending(self) -> list[Pending]:
        pending = list(self._pending.values())
        self._pending.clear()
        return pending

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        pending = self._pending.get(id(parameter))
        if pending is not None:
            if pending.gradient is parameter.grad:
                raise AssertionError(
                    f"the gradient of {self._labels[id(parameter)]!r} was computed again before "
                    "optimizer.step(); accumulating over several backward passes "
                    "(backward_passes_per_step) is not available yet"
                )
            with contextlib.suppress(HorovodInternalError):  # the model dropped that gradient: so do we
                synchronize(pending.handle)
        self._start(parameter)

    def _start(self, parameter: torch.Tensor) -> None:
        key = id(parameter)
        gradient = parameter.grad
        if gradient is None:
            gradient = parameter.grad = torch.zeros_like(parameter)
        if self._compression is NoneCompressor:
            handle = allreduce_async_(gradient, None, self._labels[key], self._op)
            self._pending[key] = Pending(gradient, handle, None)
        else:
            compressed, ctx = self._compress(gradient, self._labels[key])
            handle = allreduce_async_(compressed, None, self._labels[key], self._op)
            self._pending[key] = Pending(gradient, handle, ctx)

    def _compress(self, gradient: torch.Tensor, label: str) -> tuple[torch.Tensor, Any]:
        try:
            compressed, ctx = self._compression.compress(gradient)
        except Exception as error:
            refuse(_core.OPS["allreduce"], label, error)
            raise
        return compressed, ctx
