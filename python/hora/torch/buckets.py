"""Flat tensors, each of which holds the gradients of several parameters and is reduced as one.

A *bucket* lies in memory that the ranks of a host share, where the core reduces tensors without copying them;
that of parameters on a GPU lies there, and is reduced without packing.
It has one *section* for each of its members: a tensor of the parameter's shape and strides that becomes the
parameter's ``.grad``. A section shares the bucket's memory but is no view in autograd's sense: it can be
detached, and has a count of writes of its own. Sections begin at cache lines; what lies between them stays
zero. Members follow each other in the reverse order of their parameters, which is about the order in which a
backward pass computes gradients, so that buckets become full, and are reduced, one after the other.

A gradient that autograd adds to the section needs no copy. One that it puts into another tensor, as it does
whenever ``.grad`` is None, is copied when the bucket is full, and the section becomes ``.grad`` again. That
costs less than to reduce the gradient alone only while it is small. A large one goes alone, as it is; if the
program keeps the tensor from round to round, it moves into shared memory once.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from hora.torch.gradients import Pending
from hora.torch.members import Member, form_like, shared_zeros
from hora.torch.streams import GradientStreams

__all__ = ["Bucket", "make_buckets"]

BUCKET_BYTES = 1 << 20
BUCKET_BYTES_ON_GPU = 1 << 25  # what NCCL needs to be fast; several of them overlap with a backward pass
LINE_BYTES = 64


class Bucket:
    """The flat tensor of some members' gradients, and how far its reduction is.

    Attributes
    ----------
    arrived : dict of Member to (torch.Tensor, int)
        The gradients of this round, with PyTorch's count of writes to them: first the tensors that autograd
        left, later the sections.
    touched : list of Member
        Those whose gradients were changed between their arrival and the begin of the reduction.
    pending : Pending or None
        The reduction, once it is begun.
    """

    __slots__ = (
        "_awaited",
        "_streams",
        "arrived",
        "flat",
        "label",
        "members",
        "pending",
        "session",
        "touched",
    )

    def __init__(self, label: str, members: list[Member], session: int) -> None:
        self.label = label
        self.members = members
        self.session = session
        self.arrived: dict[Member, tuple[torch.Tensor, int]] = {}
        self.touched: list[Member] = []
        self.pending: Pending | None = None
        self._awaited = len(members)
        self._streams = GradientStreams()
        first = members[0].parameter
        self.flat = shared_zeros(sum(map(section_length, members)), first.dtype, first.device)
        offset = 0
        for member in members:
            member.bucket, member.offset = self, offset
            member.section = self._section_of(member)
            offset += section_length(member) * self.flat.itemsize

    def add(self, member: Member, gradient: torch.Tensor) -> bool:
        """Note that a gradient of this round is there; return whether all are."""
        self.arrived[member] = gradient, gradient._version
        self._streams.note(gradient)
        return len(self.arrived) >= self._awaited and len(self.arrived) == self.count_awaited()

    def count_awaited(self) -> int:
        """Return how many members need a gradient or have one; so many are awaited until the next call."""
        self._awaited = sum(
            member in self.arrived or member.parameter.requires_grad for member in self.members
        )
        return self._awaited

    def fill(self) -> None:
        """Bring the gradients into the sections, and make these the gradients; a missing one is zero.

        Raises
        ------
        RuntimeError
            If a gradient does not fit; all are in their sections or where they were.
        """
        self._streams.join()
        base = self.flat.data_ptr()
        moved: dict[Member, torch.Tensor] = {}
        for member in self.members:
            arrival = self.arrived.get(member)
            gradient = self._gradient_without_arrival(member) if arrival is None else arrival[0]
            if arrival is not None and gradient._version != arrival[1]:
                self.touched.append(member)
            if member.section.data_ptr() != base + member.offset:
                # It has been given other data, as model.to() does.
                member.section = self._section_of(member)
            if gradient is not member.section:
                moved[member] = gradient
        self._take_in(moved)
        for member in self.members:
            self.arrived[member] = member.section, member.section._version

    def _gradient_without_arrival(self, member: Member) -> torch.Tensor:
        parameter, section = member.parameter, member.section
        gradient = parameter.grad
        if not parameter.requires_grad:
            if gradient is section:
                parameter.grad = gradient.clone()
            return section.zero_()
        if gradient is None:
            parameter.grad = gradient = section.zero_()
        return gradient

    def _take_in(self, gradients: dict[Member, torch.Tensor]) -> None:
        if not gradients:
            return
        sources = list(gradients.values())
        if torch.is_grad_enabled() and any(source.requires_grad for source in sources):
            raise RuntimeError("no section can take the place of a gradient that is to be differentiated")
        torch._foreach_copy_([member.section for member in gradients], sources)
        for member, gradient in gradients.items():
            if member.parameter.grad is gradient:  # else the user has dropped it
                member.parameter.grad = member.section

    def changed(self) -> list[Member]:
        """Return the members whose gradients others have written to since they arrived."""
        arrived = self.arrived.items()
        return self.touched + [member for member, (tensor, version) in arrived if tensor._version != version]

    def misfits(self) -> list[Member]:
        """Return the members whose gradients, or whose parameters, are no longer like their sections."""
        return [member for member in self.members if not self._holds(member)]

    def _holds(self, member: Member) -> bool:
        parameter, section = member.parameter, member.section
        gradient = self.arrived[member][0] if member in self.arrived else parameter.grad
        alike = (parameter.dtype, parameter.shape) == (section.dtype, section.shape)
        return alike and parameter.device == section.device and (gradient is None or member.fits(gradient))

    def dissolve(self) -> None:
        """Leave the members without a bucket; those that fit into none stay so."""
        for member in self.members:
            gradient = self.arrived[member][0] if member in self.arrived else member.parameter.grad
            member.alone = gradient is not None and not member.fits(gradient)
            member.bucket, member.section = None, member.parameter

    def reset(self) -> None:
        """Begin a new round."""
        self.arrived.clear()
        self.touched.clear()
        self.pending = None

    def _section_of(self, member: Member) -> torch.Tensor:
        return form_like(member.parameter, self.flat, member.offset // self.flat.itemsize)


def make_buckets(label: str, first: int, members: Iterable[Member], session: int) -> list[Bucket]:
    """Put members into new buckets, in their order, of one dtype and device; a large one gets its own."""
    runs: list[list[Member]] = []
    open_runs: dict[tuple[torch.dtype, torch.device], tuple[list[Member], int]] = {}
    for member in members:
        parameter = member.parameter
        kind = parameter.dtype, parameter.device
        length = section_length(member) * parameter.dtype.itemsize
        run, filled = open_runs.get(kind, ([], 0))
        if not run or filled + length > (BUCKET_BYTES if parameter.is_cpu else BUCKET_BYTES_ON_GPU):
            run, filled = [], 0
            runs.append(run)
        run.append(member)
        open_runs[kind] = run, filled + length
    numbered = enumerate(runs, start=first)
    return [Bucket(f"{label} {number}: {ends_of(run)}", run, session) for number, run in numbered]


def ends_of(members: list[Member]) -> str:
    """Name the first and the last of some members."""
    names = [member.label.partition("/")[2] for member in (members[0], members[-1])]
    return names[0] if len(members) == 1 else " to ".join(names)


def section_length(member: Member) -> int:
    """Return how many elements a section takes, to the end of its last cache line."""
    step = LINE_BYTES // member.parameter.dtype.itemsize
    return -(-member.parameter.numel() // step) * step
