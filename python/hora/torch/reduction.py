"""Reducing the gradients of one optimizer while the backward pass goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch.utils.hooks import RemovableHandle

from hora.errors import HorovodInternalError
from hora.torch.gradients import GradientRule, Pending
from hora.torch.parameters import Bucket, ParameterGroups

__all__ = ["GradientReduction"]

# So many gradients, or so many bytes, are worth a call into the core.
MOST_COLLECTED = 32
MOST_COLLECTED_BYTES = 1 << 20


class GradientReduction:
    """Starts each gradient's reduction from a hook and waits for all of them.

    A *round* reduces every parameter that needs a gradient exactly once, on every rank: those whose hook has
    fired in ``passes`` backward passes, and in :meth:`synchronize` the others, whose missing gradient counts
    as zero. So no rank ever waits for a gradient that another rank does not have.

    Used by the thread that runs backward passes and by the one that steps, never at the same time.

    Attributes
    ----------
    active : bool
        This rank has others to reduce with.
    passes : int
        Backward passes of a round.
    synchronized : bool
        The round is complete.
    """

    def __init__(
        self,
        prefix: str,
        names: dict[torch.Tensor, str],
        rule: GradientRule,
        buckets: list[Bucket],
        passes: int,
    ) -> None:
        self.active = rule.process_set.included() and len(rule.process_set.ranks) > 1
        self.passes = passes
        self.synchronized = False
        self._prefix = prefix
        self._names = names
        self._rule = rule
        self._buckets = buckets
        self._bucket_of = {id(member): bucket for bucket in buckets for member in bucket.members}
        self._paused = False
        # Keys are ids of parameters, which stay unique because _parameters holds them.
        self._labels: dict[int, str] = {}
        self._parameters: list[torch.Tensor] = []
        self._hooks: dict[int, RemovableHandle] = {}
        self._passes_done: dict[int, int] = {}
        self._sparse_dims: dict[int, int] = {}
        self._pending: dict[int, Pending] = {}
        self._collected: list[Pending] = []  # those of _pending that have not been begun
        self._collected_bytes = 0

    def watch(self, groups: ParameterGroups) -> None:
        """Label the parameters not seen before and hook those that need a gradient now."""
        if not self.active:
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

    def synchronize(self, groups: ParameterGroups) -> None:
        """Complete the round; does nothing when the last one is complete and no gradient came since."""
        if not self.active or (self.synchronized and not self._pending):
            return
        self.watch(groups)
        for group in groups:
            for parameter in group["params"]:
                if parameter.requires_grad and id(parameter) not in self._pending:
                    self._start(parameter)
        self._begin_collected()
        touched = [self._labels[key] for key, each in self._pending.items() if not each.untouched()]
        self._finish_all()
        if touched:
            raise RuntimeError(
                f"gradients were changed while they were being reduced: {', '.join(touched)}; call "
                "optimizer.synchronize() before clipping or scaling gradients, and step inside "
                "`with optimizer.skip_synchronize():`"
            )
        self.start_over()
        self.synchronized = True

    def require_synchronized(self) -> None:
        """Refuse a step that would use gradients while they are being reduced."""
        if self._pending:
            raise AssertionError(
                "optimizer.step() inside skip_synchronize() while gradients are being reduced; "
                "call optimizer.synchronize() before"
            )

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let backward passes add to the gradients without being counted."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def start_over(self) -> None:
        """Begin a new round."""
        self.synchronized = False
        self._passes_done.clear()
        for bucket in self._buckets:
            bucket.refill()

    def discard(self) -> None:
        """Wait for what goes on, drop its results and begin a new round."""
        with contextlib.suppress(HorovodInternalError):
            self._finish_all()
        self.start_over()

    def close(self) -> None:
        """Leave the model alone from now on."""
        for hook in self._hooks.values():
            hook.remove()

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        self.synchronized = False
        key = id(parameter)
        pending = self._pending.get(key)
        if pending is not None:
            self._drop(key, pending, parameter)
        if self._paused:
            return
        self._passes_done[key] = self._passes_done.get(key, 0) + 1
        if self._passes_done[key] < self.passes:
            return
        bucket = self._bucket_of.get(key)
        if bucket is None:
            self._start(parameter)
        elif bucket.complete_with(parameter):
            for member in bucket.members:
                ready = self._passes_done.get(id(member), 0) >= self.passes
                if ready and id(member) not in self._pending:
                    self._start(member)

    def _drop(self, key: int, pending: Pending, parameter: torch.Tensor) -> None:
        """Forget a reduction whose gradient the model has dropped; refuse one that is still wanted."""
        if pending.gradient is parameter.grad:
            raise AssertionError(
                f"the gradient of {self._labels[key]!r} was computed again before optimizer.step(), after "
                f"{self.passes} backward passes; to add up more, set backward_passes_per_step or use "
                "optimizer.no_sync()"
            )
        self._begin_collected()
        del self._pending[key]
        self._passes_done[key] = 0
        with contextlib.suppress(HorovodInternalError):
            pending.finish()

    def _start(self, parameter: torch.Tensor) -> None:
        key = id(parameter)
        gradient = parameter.grad
        if gradient is None:
            gradient = parameter.grad = self._zero_gradient(parameter)
        if self._rule.is_plain(gradient):
            self._pending[key] = self._collect(Pending(gradient, self._labels[key]))
            return
        announced = key in self._sparse_dims
        if gradient.is_sparse:
            self._sparse_dims[key] = gradient.sparse_dim()
        self._pending[key] = self._rule.start(parameter, self._labels[key], announced=announced)

    def _collect(self, pending: Pending) -> Pending:
        """Put a small gradient aside, to begin several with one call; each call costs as much as a few."""
        self._collected.append(pending)
        self._collected_bytes += pending.gradient.nbytes
        if len(self._collected) >= MOST_COLLECTED or self._collected_bytes >= MOST_COLLECTED_BYTES:
            self._begin_collected()
        return pending

    def _begin_collected(self) -> None:
        if self._collected:
            collected, self._collected, self._collected_bytes = self._collected, [], 0
            self._rule.start_plain(collected)

    def _zero_gradient(self, parameter: torch.Tensor) -> torch.Tensor:
        """Return a gradient of zeros; without entries if the parameter's gradients were sparse before."""
        sparse_dim = self._sparse_dims.get(id(parameter))
        zero = torch.zeros_like(parameter, requires_grad=False)
        return zero if sparse_dim is None else zero.to_sparse(sparse_dim)

    def _finish_all(self) -> None:
        """Wait for all, then raise the first failure if there is one, so that no name stays in use."""
        self._begin_collected()
        pending = list(self._pending.values())
        self._pending.clear()
        failure: HorovodInternalError | None = None
        for each in pending:
            try:
                each.finish()
            except HorovodInternalError as error:
                failure = failure or error
        if failure is not None:
            raise failure
