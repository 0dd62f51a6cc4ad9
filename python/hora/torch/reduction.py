"""Reducing the gradients of one optimizer while the backward pass goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

import torch
from torch.utils.hooks import RemovableHandle

from hora import _core
from hora.errors import HorovodInternalError
from hora.torch.buckets import Bucket
from hora.torch.gradients import GradientRule, Pending
from hora.torch.lone import LoneGradients
from hora.torch.members import Member
from hora.torch.membership import Membership
from hora.torch.parameters import ParameterGroups, StartGroup

__all__ = ["GradientReduction"]


class GradientReduction:
    """Starts each gradient's reduction from a hook and waits for all of them.

    A *round* reduces every parameter that needs a gradient exactly once, on every rank: those whose hook has
    fired in ``passes`` backward passes, and in :meth:`synchronize` the others, whose missing gradient counts
    as zero. So no rank ever waits for a gradient that another rank does not have.

    A gradient is reduced with its bucket, or alone where :class:`Membership` gave it none, or once its bucket
    is under way and the model has dropped it.

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
        groups: list[StartGroup],
        passes: int,
    ) -> None:
        self.active = rule.process_set.included() and len(rule.process_set.ranks) > 1
        self.passes = passes
        self.synchronized = False
        self._prefix = prefix
        self._names = names
        self._rule = rule
        self._groups = groups
        self._group_of = {id(parameter): group for group in groups for parameter in group.members}
        self._paused = False
        self._membership = Membership(prefix, rule)
        self._lone = LoneGradients(rule)
        # Keys are ids of parameters, which stay unique because members hold them.
        self._members: dict[int, Member] = {}
        self._hooks: dict[int, RemovableHandle] = {}
        self._passes_done: dict[int, int] = {}

    def watch(self, groups: ParameterGroups) -> None:
        """Label the parameters not seen before and hook those that need a gradient now."""
        if not self.active:
            return
        for group in groups:
            for parameter in group["params"]:
                key = id(parameter)
                if key not in self._hooks:
                    self._watch_one(key, parameter)

    def _watch_one(self, key: int, parameter: torch.Tensor) -> None:
        member = self._members.get(key)
        if member is None:
            name = self._names.get(parameter, f"#{len(self._members)}")
            member = Member(parameter, f"{self._prefix}/{name}", self._group_of.get(key))
            self._members[key] = member
        if parameter.requires_grad:
            hook = partial(self._on_gradient, member)
            self._hooks[key] = parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]

    def synchronize(self, groups: ParameterGroups) -> None:
        """Complete the round; does nothing when the last one is complete and no gradient came since."""
        if not self.active:
            return
        if self.synchronized and not self._in_flight():
            _core.require_working()  # on a GPU a reduction may fail after its wait
            return
        failure = self._begin_buckets()
        self.watch(groups)
        self._begin_lone(groups)
        self._membership.propose(self._members, self._lone.pending)
        changed = self._changed()
        self._finish_all(failure)
        _core.require_working()
        if changed:
            raise RuntimeError(
                f"gradients were changed while they were being reduced: {', '.join(changed)}; call "
                "optimizer.synchronize() before clipping or scaling gradients, and step inside "
                "`with optimizer.skip_synchronize():`"
            )
        self.start_over()
        self.synchronized = True

    def require_synchronized(self) -> None:
        """Refuse a step that would use gradients while they are being reduced, or whose reduction failed."""
        if self.active:
            _core.require_working()
        if self._in_flight():
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
        for group in self._groups:
            group.refill()

    def discard(self) -> None:
        """Wait for what goes on, drop its results and begin a new round."""
        with contextlib.suppress(HorovodInternalError):
            self._finish_all()
        self.start_over()

    def close(self) -> None:
        """Leave the model alone from now on."""
        for hook in self._hooks.values():
            hook.remove()

    def _on_gradient(self, member: Member, parameter: torch.Tensor) -> None:
        """Begin what this gradient completes. Every statement here runs for each parameter and step."""
        self.synchronized = False
        bucket, gradient = member.bucket, parameter.grad
        assert gradient is not None
        if (bucket is not None and member in bucket.arrived) or id(parameter) in self._lone.pending:
            self._drop(member, gradient)
        if self._paused or (self.passes > 1 and not self._is_last_pass(parameter)):
            return
        if bucket is not None and bucket.pending is None:
            if bucket.add(member, gradient):
                self._begin_bucket(bucket)
        elif member.group is None:
            self._lone.start(member)
        else:
            for ready in member.group.complete_with(parameter):
                self._lone.start(self._members[id(ready)])

    def _is_last_pass(self, parameter: torch.Tensor) -> bool:
        key = id(parameter)
        done = self._passes_done[key] = self._passes_done.get(key, 0) + 1
        return done >= self.passes

    def _drop(self, member: Member, gradient: torch.Tensor) -> None:
        """Forget a reduction whose gradient the model has dropped; refuse one that is still wanted."""
        key, bucket = id(member.parameter), member.bucket
        pending = self._lone.pending.get(key)
        arrival = bucket.arrived.get(member) if bucket is not None else None
        if gradient is (pending.gradient if pending is not None else arrival and arrival[0]):
            raise AssertionError(
                f"the gradient of {member.label!r} was computed again before optimizer.step(), after "
                f"{self.passes} backward passes; to add up more, set backward_passes_per_step or use "
                "optimizer.no_sync()"
            )
        self._passes_done.pop(key, None)
        if pending is not None:
            self._lone.drop(key)
        elif bucket is not None:
            del bucket.arrived[member]

    def _begin_bucket(self, bucket: Bucket) -> None:
        """Begin to reduce a bucket; what no longer fits waits for :meth:`synchronize`."""
        if self._membership.end_with_session():
            return
        try:
            bucket.fill()
        except RuntimeError:
            if not bucket.misfits():
                raise
        else:
            bucket.pending = Pending(bucket.flat, bucket.label)
            self._rule.start_plain([bucket.pending])

    def _begin_buckets(self) -> HorovodInternalError | None:
        """Begin all buckets, also those that lack gradients; dissolve those that something does not fit."""
        self._membership.end_with_session()
        for bucket in self._membership.idle():
            self._begin_bucket(bucket)
        failure: HorovodInternalError | None = None
        for bucket in self._membership.idle():
            try:
                self._membership.dissolve(bucket)
            except HorovodInternalError as error:
                failure = failure or error
        return failure

    def _begin_lone(self, groups: ParameterGroups) -> None:
        """Begin what no bucket reduces; that may be a gradient whose bucket began with one dropped since."""
        for group in groups:
            for parameter in group["params"]:
                member = self._members[id(parameter)]
                bucket = member.bucket
                if bucket is not None and (member in bucket.arrived or bucket.pending is None):
                    continue
                if parameter.requires_grad and id(parameter) not in self._lone.pending:
                    self._lone.start(member)
        self._lone.begin_collected()

    def _in_flight(self) -> bool:
        return bool(self._lone.pending) or any(bucket.arrived for bucket in self._membership.buckets)

    def _changed(self) -> list[str]:
        """Name the gradients that somebody has written to while they were being reduced."""
        alone = [pending.label for pending in self._lone.pending.values() if not pending.untouched()]
        return alone + [member.label for bucket in self._membership.buckets for member in bucket.changed()]

    def _finish_all(self, failure: HorovodInternalError | None = None) -> None:
        """Wait for all, then raise the first failure if there is one, so that no name stays in use."""
        pending = self._lone.take_begun() + self._membership.take_begun()
        for finish in [*(each.finish for each in pending), self._membership.conclude]:
            try:
                finish()
            except HorovodInternalError as error:
                failure = failure or error
        if failure is not None:
            raise failure
