"""Giving all ranks the root's parameters and optimizer state."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from hora import _core
from hora._arguments import Sum, set_id
from hora._handle import Handle, synchronize_all
from hora._objects import allgather_by_rank, broadcast_object
from hora.process_sets import ProcessSet, global_process_set
from hora.torch.collectives import broadcast_async_

__all__ = ["broadcast_optimizer_state", "broadcast_parameters"]

_BROADCAST = _core.OPS["broadcast"]
PARAMETERS = "parameters/"  # before the names, so that they cannot meet those of gradients

Parameters = Mapping[str, Any] | Iterable[torch.Tensor | tuple[str, torch.Tensor | None] | None]


def broadcast_parameters(
    params: Parameters, root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Overwrite tensors with the root's, in place; call it once after the model is made or loaded.

    Parameters
    ----------
    params
        ``model.state_dict()``, ``model.named_parameters()``, or an iterable of tensors or of (name, tensor)
        pairs. Any shapes and dtypes, equal on all ranks; entries that are None are skipped.
    root_rank : int
        Whose values all ranks get.
    process_set : ProcessSet
        The ranks that take part, by default all.

    Raises
    ------
    ValueError
        If ``params`` has another form.
    HorovodInternalError
        On all ranks, when a tensor's shape or dtype differs between them; the message names the tensor.

    Examples
    --------
    >>> import torch
    >>> import hora.torch as hvd
    >>> hvd.init()
    >>> model = torch.nn.Linear(2, 1)
    >>> hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    """
    broadcast_all(agree_on_names(params, process_set), root_rank, process_set)


def agree_on_names(params: Parameters, process_set: ProcessSet) -> list[tuple[str, torch.Tensor]]:
    """Return names and tensors; where ranks have different ones, or one refuses its own, all ranks raise."""
    named: list[tuple[str, torch.Tensor]] = []
    refusal: ValueError | None = None
    try:
        named = named_tensors(params)
    except ValueError as error:
        refusal = error
    names = [name.removeprefix(PARAMETERS) for name, _ in named]
    own = (hashlib.sha256(repr(names).encode()).digest(), str(refusal or ""))
    of_ranks = allgather_by_rank(own, "broadcast_parameters", process_set)
    if refusal is not None:
        raise refusal
    for rank, (_, text) in of_ranks.items():
        if text:
            raise ValueError(f"broadcast_parameters: rank {rank} refused its parameters ({text})")
    if any(each != own for each in of_ranks.values()):
        raise ValueError(describe_names(allgather_by_rank(names, "broadcast_parameters", process_set)))
    return named


def describe_names(of_ranks: dict[int, list[str]]) -> str:
    """Say which names not all ranks have, or that their order differs."""
    lists = list(of_ranks.values())
    partial = sorted(set().union(*lists) - set(lists[0]).intersection(*lists))
    if not partial:
        return "broadcast_parameters: ranks give the same names in different orders; pass a dict or sort them"
    holders = {name: [rank for rank, names in of_ranks.items() if name in names] for name in partial}
    return "broadcast_parameters: not on all ranks: " + ", ".join(
        f"{name!r} (only on ranks {ranks})" for name, ranks in holders.items()
    )


def named_tensors(params: Parameters) -> list[tuple[str, torch.Tensor]]:
    """Bring every accepted form of parameters into one; those of a dict are sorted by name."""
    if isinstance(params, torch.Tensor):
        raise ValueError("broadcast_parameters: params must be a dict or iterable of tensors, not one tensor")
    try:
        entries: list[Any] = sorted(params.items()) if isinstance(params, Mapping) else list(params)
    except TypeError as error:
        raise ValueError(
            f"broadcast_parameters: params must be a dict or an iterable of tensors or (name, tensor) pairs, "
            f"not {type(params).__name__}"
        ) from error
    named = [named_tensor(index, entry) for index, entry in enumerate(entries) if entry is not None]
    return [(PARAMETERS + name, tensor) for name, tensor in named if tensor is not None]


def named_tensor(index: int, entry: Any) -> tuple[str, torch.Tensor | None]:
    """Return name and tensor of one entry; an entry without a name gets its index as name."""
    name, tensor = entry if isinstance(entry, tuple) and len(entry) == 2 else (str(index), entry)
    if not isinstance(name, str) or not (tensor is None or isinstance(tensor, torch.Tensor)):
        raise ValueError(
            f"broadcast_parameters: entry {name!r} must be a tensor or a (name, tensor) pair, "
            f"not {type(tensor).__name__}"
        )
    return name, tensor


def broadcast_all(named: list[tuple[str, torch.Tensor]], root_rank: int, process_set: ProcessSet) -> None:
    """Broadcast many tensors in place, all in flight together, also when one of them is refused."""
    begun, refusal = broadcast_plain(named, root_rank, process_set)
    handles = [Handle(core, tensor) for core, (_, tensor) in zip(begun, named, strict=False)]
    for name, tensor in named[len(begun) + (refusal is not None) :]:
        try:
            handles.append(broadcast_async_(tensor, root_rank, name, process_set))
        except (TypeError, ValueError) as error:
            refusal = refusal or error
    synchronize_all(handles)
    if refusal is not None:
        raise refusal


def broadcast_plain(
    named: list[tuple[str, torch.Tensor]], root_rank: int, process_set: ProcessSet
) -> tuple[list[_core.Handle], Exception | None]:
    """Begin the broadcasts, announced together; none of them if the core cannot read one of the tensors.

    Returns the handles of those that have begun, and why the one after the last of them was refused.
    """
    handles: list[_core.Handle] = []
    names = [name for name, _ in named]
    tensors = [tensor for _, tensor in named]
    members = set_id(process_set)
    try:
        _core.submit_each(_BROADCAST, names, tensors, Sum, root_rank, 1.0, 1.0, members, handles)
    except TypeError:  # not even begun: the long way has all the error texts
        pass
    except ValueError as error:
        return handles, error
    return handles, None


@dataclass(frozen=True)
class Slot:
    """Stands for a tensor in a structure that is pickled."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str  # its type: which of several GPUs is this rank's own is for the rank to say


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Give the optimizers of all ranks the root's options and state; call it once after loading a checkpoint.

    Every option (learning rate, momentum, flags, None, tuples) arrives with its value and Python type.
    State that only the root has is made on the other ranks; no step is taken and no gradient is touched.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Wrapped in ``DistributedOptimizer`` or not; its parameter groups have the same lengths on all ranks.
    root_rank : int
        Whose options and state all ranks get.
    model : torch.nn.Module, optional
        Part of Horovod's signature, not needed.
    process_set : ProcessSet
        The ranks that take part, by default all.

    Raises
    ------
    ValueError
        For L-BFGS, whose state differs in form between ranks; on all ranks, when the parameter groups differ.

    Examples
    --------
    >>> import torch
    >>> import hora.torch as hvd
    >>> hvd.init()
    >>> optimizer = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)
    >>> hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    """
    check_groups(optimizer, process_set)
    tensors: list[torch.Tensor] = []
    packed = pack(optimizer_content(optimizer), tensors) if _core.rank() == root_rank else None
    packed = broadcast_object(packed, root_rank, "optimizer_state", process_set)
    if _core.rank() != root_rank:
        set_content(optimizer, unpack(packed, tensors))
    named = [(f"optimizer_state/{index}", tensor) for index, tensor in enumerate(tensors)]
    broadcast_all(named, root_rank, process_set)


def check_groups(optimizer: torch.optim.Optimizer, process_set: ProcessSet) -> None:
    """Refuse, on all ranks alike, L-BFGS and optimizers whose parameter groups differ between ranks."""
    is_refused = isinstance(optimizer, torch.optim.LBFGS)
    lengths = None if is_refused else [len(group["params"]) for group in optimizer.param_groups]
    of_ranks = allgather_by_rank(lengths, "optimizer_groups", process_set)
    first = next(iter(of_ranks))
    for rank, other in of_ranks.items():
        if other is None:
            raise ValueError(
                f"broadcast_optimizer_state: the state of torch.optim.LBFGS cannot be broadcast (rank {rank})"
            )
        if other != of_ranks[first]:
            raise ValueError(
                f"broadcast_optimizer_state: rank {rank} has parameter groups of {other} parameters, "
                f"rank {first} of {of_ranks[first]}"
            )


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters in the order of groups, which is how ranks refer to them."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def optimizer_content(optimizer: torch.optim.Optimizer) -> tuple[list[dict[str, Any]], dict[Any, Any]]:
    """Return options of each group and state of each parameter; a parameter is given by its number."""
    options = [{key: group[key] for key in group if key != "params"} for group in optimizer.param_groups]
    numbers = {id(parameter): number for number, parameter in enumerate(parameters_of(optimizer))}
    state = {numbers.get(id(key), key): value for key, value in optimizer.state.items()}
    return options, state


def set_content(
    optimizer: torch.optim.Optimizer, content: tuple[list[dict[str, Any]], dict[Any, Any]]
) -> None:
    """Replace options and state by those of another rank's :func:`optimizer_content`."""
    options, state = content
    for group, new in zip(optimizer.param_groups, options, strict=True):
        params = group["params"]
        group.clear()
        group.update({"params": params, **new})
    parameters = parameters_of(optimizer)
    optimizer.state.clear()
    for key, value in state.items():
        optimizer.state[parameters[key] if isinstance(key, int) else key] = value


def pack(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Replace the tensors in a nest of dicts, lists and tuples by slots and collect them."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return Slot(tuple(value.shape), value.dtype, value.device.type)
    return rebuild(value, lambda inner: pack(inner, tensors))


def unpack(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Replace the slots in a nest by new tensors and collect them, in the order of :func:`pack`."""
    if isinstance(value, Slot):
        tensors.append(torch.zeros(value.shape, dtype=value.dtype, device=value.device))
        return tensors[-1]
    return rebuild(value, lambda inner: unpack(inner, tensors))


def rebuild(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to the members of a dict, list or tuple, keeping its type; return others as they
    are."""
    if isinstance(value, dict):
        changed = copy.copy(value)
        changed.update((key, change(member)) for key, member in value.items())
        return changed
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(change, value))
    if type(value) in (list, tuple):
        return type(value)(map(change, value))
    return value
