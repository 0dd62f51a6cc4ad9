"""How a call begins: all checks first, then the core; what is refused here fails on the other ranks too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic

from hora import _core
from hora._adapter import Tensor
from hora._arguments import Sum, check_name, set_id
from hora._handle import GroupHandle, Operand, OperandHandle
from hora.process_sets import ProcessSet, global_process_set

__all__ = [
    "Prepared",
    "begin_in_place",
    "operands_of",
    "refuse",
    "start",
    "start_group",
    "tensors_of",
]


@dataclass
class Prepared(Generic[Tensor]):
    """A call whose arguments were checked."""

    operands: list[Operand[Tensor]]
    reduction: int = Sum
    root: int = 0
    prescale: float = 1.0
    postscale: float = 1.0
    splits: list[int] = field(default_factory=list)


#: Checks a call's arguments, given the number of its process set.
Prepare = Callable[[int], Prepared[Tensor]]

_OP_NAMES = {number: name for name, number in _core.OPS.items()}


def refuse(op: int, name: object, error: Exception, process_set: object = global_process_set) -> None:
    """Tell the other ranks that this one cannot take part in a call; name the call in the error's text."""
    members = process_set.process_set_id if isinstance(process_set, ProcessSet) else 0
    if members is not None:  # in a set that does not exist nobody waits
        _core.refuse(op, name if isinstance(name, str) else None, str(error), members)
    label = f" {name!r}" if isinstance(name, str) else ""
    if type(error) in (TypeError, ValueError):
        error.args = (f"{_OP_NAMES[op]}{label}: {error}",)


def begin_in_place(
    op: int,
    name: str | None,
    tensors: object,
    reduction: int,
    root: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> _core.Handle | None:
    """Begin a call in place that needs no conversion; None when it takes :func:`start`, errors included."""
    try:
        return _core.submit_in_place(op, name, tensors, reduction, root, prescale, postscale, process_set._id)
    except (TypeError, AttributeError):
        return None


def start(
    op: int, name: str | None, process_set: ProcessSet | None, prepare: Prepare[Tensor]
) -> OperandHandle[Tensor]:
    """Begin a call of one tensor."""
    core, operands = submit(op, name, process_set, prepare)
    return OperandHandle(core, operands[0])


def start_group(
    op: int, name: str | None, process_set: ProcessSet | None, prepare: Prepare[Tensor]
) -> GroupHandle[Tensor]:
    """Begin a call of several tensors; when one of them is refused, so is the call."""
    return GroupHandle(*submit(op, name, process_set, prepare))


def submit(
    op: int, name: str | None, process_set: ProcessSet | None, prepare: Prepare[Tensor]
) -> tuple[_core.Handle, list[Operand[Tensor]]]:
    """Check a call and pass it to the core."""
    try:
        check_name(name)
        members = set_id(process_set)
        call = prepare(members)
    except Exception as error:
        refuse(op, name, error, process_set)
        raise
    first = call.operands[0] if call.operands else None
    core = _core.submit(
        op,
        name,
        [operand.ref for operand in call.operands],
        call.reduction,
        call.root,
        call.prescale,
        call.postscale,
        [operand.owners for operand in call.operands],
        members,
        call.splits,
        -1 if first is None else first.device,
        None if first is None else first.stream_of,
    )
    return core, call.operands


def tensors_of(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return the tensors of a grouped call."""
    if hasattr(tensors, "shape"):
        raise TypeError("a grouped call takes a list of tensors, not one tensor")
    return list(tensors)


def operands_of(tensors: list[Tensor], make: Callable[[Tensor], Operand[Tensor]]) -> list[Operand[Tensor]]:
    """Check the tensors of a call; an error says which of several is wrong."""
    operands: list[Operand[Tensor]] = []
    for number, tensor in enumerate(tensors):
        try:
            operands.append(make(tensor))
        except (TypeError, ValueError) as error:
            if len(tensors) > 1:
                error.args = (f"tensor {number} of {len(tensors)}: {error}",)
            raise
    check_devices([operand.device for operand in operands])
    return operands


def check_devices(devices: list[int]) -> None:
    """Refuse tensors of one call that lie on several devices."""
    for number, device in enumerate(devices):
        if device != devices[0]:
            raise ValueError(
                f"tensor {number} of {len(devices)} is {in_words(device)}, tensor 0 {in_words(devices[0])}; "
                "the tensors of one call have to be on one device"
            )


def in_words(device: int) -> str:
    """Say where a tensor lies."""
    return "in host memory" if device < 0 else f"on GPU {device}"
