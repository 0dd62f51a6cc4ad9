"""Checking that all ranks hold the same tensors."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator

import torch

from hora._objects import allgather_by_rank
from hora.errors import HorovodInternalError

__all__ = ["check_consistency"]


def check_consistency(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
    """Raise on all ranks unless all hold the same weights, to the last bit.

    Costs one pass over the memory and one exchange of 16 bytes per tensor: cheap enough for every epoch. All
    ranks call it.

    Parameters
    ----------
    model : torch.nn.Module
        Its parameters and buffers are compared. Buffers that are meant to differ, such as the running
        statistics of batch normalisation, count too.
    optimizer : torch.optim.Optimizer, optional
        The tensors of its state are compared as well.

    Raises
    ------
    HorovodInternalError
        On all ranks, naming the first tensor that differs and the ranks that differ from the first one.

    Examples
    --------
    >>> import torch
    >>> import hora.torch as hvd
    >>> hvd.init()
    >>> model = torch.nn.Linear(2, 1)
    >>> hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    >>> hvd.check_consistency(model)
    """
    named = {f"model {name}": value for name, value in model.state_dict().items()}
    if optimizer is not None:
        named.update(optimizer_tensors(optimizer))
    digests = {name: digest(value) for name, value in named.items() if isinstance(value, torch.Tensor)}
    of_ranks = allgather_by_rank(digests)
    first = next(iter(of_ranks))
    for name in dict.fromkeys(name for each in of_ranks.values() for name in each):
        other = [rank for rank, each in of_ranks.items() if each.get(name) != of_ranks[first].get(name)]
        if other:
            raise HorovodInternalError(f"{name} differs: ranks {other} hold another value than rank {first}")


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, object]]:
    """Yield the state of each parameter, which is told by its number."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in enumerate(parameters):
        for key, value in optimizer.state.get(parameter, {}).items():
            yield f"optimizer state {number}.{key}", value


def digest(tensor: torch.Tensor) -> bytes:
    """Return a fingerprint of dtype, shape and values; equal values in other strides give an equal one."""
    dense = tensor.detach().cpu().contiguous()
    result = hashlib.blake2b(f"{dense.dtype}{tuple(dense.shape)}".encode(), digest_size=16)
    bytes_ = dense.numel() * dense.element_size()
    if bytes_:
        result.update((ctypes.c_char * bytes_).from_address(dense.data_ptr()))
    return result.digest()
