"""Which gradients of an optimizer are reduced in buckets: on every rank the same."""

from __future__ import annotations

import torch

from hora._world import session_number
from hora.errors import HorovodInternalError
from hora.torch.agreement import ballot, is_unanimous
from hora.torch.buckets import Bucket, make_buckets
from hora.torch.gradients import GradientRule, Pending
from hora.torch.members import Member

__all__ = ["Membership"]


class Membership:
    """Forms and dissolves the buckets of one optimizer, by agreement of all its ranks.

    A parameter's first gradient is reduced alone. At the end of such a round, when each rank has a gradient
    for each parameter, ranks vote on names, dtypes, shapes and strides of those that fit into buckets. Where
    they are the same on all ranks, in the same order, buckets are made of them; where not, these parameters
    go on alone until there are others to vote on. So no bucket exists on some ranks only. If ranks have
    joined, the vote is repeated in the next round.

    Later a gradient may cease to fit: it has become sparse or is to be differentiated, or its parameter got
    another dtype, shape or device. The bucket is then dissolved, and each of its gradients reduced alone in
    this round. Ranks agree on that too, under the bucket's name: if some reduce it instead, all get an error.

    What was agreed ends with the session: a new one may have other ranks.

    Attributes
    ----------
    buckets : list of Bucket
    """

    def __init__(self, prefix: str, rule: GradientRule) -> None:
        self.buckets: list[Bucket] = []
        self._prefix = prefix
        self._rule = rule
        self._voting = rule.voting()
        self._made = 0
        self._settled: set[int] = set()  # the parameters alone that are to stay so
        self._vote: Pending | None = None
        self._candidates: list[Member] = []
        self._alone: set[int] = set()  # when the vote began

    def propose(self, members: dict[int, Member], alone: dict[int, Pending]) -> None:
        """Vote on buckets for gradients that are reduced alone, unless that is settled."""
        if alone.keys() == self._settled or not self._may_bucket(members, alone):
            return
        self._alone = set(alone)
        self._candidates = [
            member
            for key, member in reversed(members.items())
            if key in alone
            and self._rule.is_plain(alone[key].gradient)
            and may_join(member, alone[key].gradient)
        ]
        self._vote = self._cast([each.description() for each in self._candidates], f"{self._prefix}/buckets")

    def _may_bucket(self, members: dict[int, Member], alone: dict[int, Pending]) -> bool:
        """Return, the same on all ranks, whether there can be buckets: what a compressor makes goes alone."""
        if self._rule.is_uncompressed:
            return True
        return self._rule.wire is not None and any(not members[key].parameter.is_cpu for key in alone)

    def conclude(self) -> None:
        """Make the buckets that were voted for."""
        vote, self._vote = self._vote, None
        if vote is None:
            return
        vote.finish()
        verdict = self._count(vote)
        if verdict is None:
            return
        self._settled = self._alone
        if verdict:
            made = make_buckets(f"{self._prefix}/bucket", self._made, self._candidates, session_number())
            self._made += len(made)
            self.buckets += made
            self._settled = self._alone - {id(member.parameter) for member in self._candidates}
        self._candidates = []

    def idle(self) -> list[Bucket]:
        """Return the buckets whose members need gradients and whose reduction has not begun."""
        return [bucket for bucket in self.buckets if bucket.pending is None and bucket.count_awaited()]

    def take_begun(self) -> list[Pending]:
        """Return the reductions of buckets that are under way, and begin a new round of all buckets."""
        begun = [bucket.pending for bucket in self.buckets if bucket.pending is not None]
        for bucket in self.buckets:
            bucket.reset()
        return begun

    def dissolve(self, bucket: Bucket) -> None:
        """Dissolve a bucket, together with all ranks, because gradients do not fit it any longer."""
        names = ", ".join(member.label for member in bucket.misfits())
        vote = self._cast("dissolve", bucket.label)
        try:
            vote.finish()
        except HorovodInternalError as error:
            raise HorovodInternalError(
                f"{error}: on this rank the gradients of {names} have changed their kind"
            ) from error
        if not self._count(vote):
            raise HorovodInternalError(
                f"{bucket.label!r}: the gradients of {names} have changed their kind, and ranks that have "
                "joined cannot be told"
            )
        bucket.dissolve()
        self.buckets.remove(bucket)

    def end_with_session(self) -> bool:
        """Dissolve all buckets if they are of an earlier session; return whether they were."""
        ended = bool(self.buckets) and self.buckets[0].session != session_number()
        if ended:
            for bucket in self.buckets:
                bucket.dissolve()
            self.buckets.clear()
            self._settled.clear()
        return ended

    def _cast(self, opinion: object, label: str) -> Pending:
        vote = Pending(ballot(opinion), label)
        self._voting.start_plain([vote])
        return vote

    def _count(self, vote: Pending) -> bool | None:
        return is_unanimous(vote.gradient, len(self._rule.process_set.ranks))


def may_join(member: Member, gradient: torch.Tensor) -> bool:
    """Return whether the gradient, which is reduced alone, may go with a bucket from the next round on."""
    wanted = member.group is None and member.bucket is None and not member.alone
    return wanted and member.is_small() and member.parameter.grad is gradient and member.fits(gradient)
