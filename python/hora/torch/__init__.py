"""Hora for PyTorch: ``import hora.torch as hvd`` in place of ``import horovod.torch as hvd``.

Examples
--------
>>> import torch
>>> import hora.torch as hvd
>>> hvd.init()
>>> hvd.allreduce(torch.ones(2))
tensor([1., 1.])
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401 - only whether it is there
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError(
        "hora.torch needs PyTorch, which is not installed; install it with: pip install torch==2.13.0"
    ) from error

from hora._arguments import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from hora._handle import Handle, poll, synchronize
from hora._objects import allgather_object, broadcast_object
from hora._ops import barrier
from hora._world import (
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)
from hora.compression import Compressor
from hora.errors import HorovodInternalError, NotInitializedError
from hora.process_sets import global_process_set
from hora.torch.collectives import (
    Compression,
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
)
from hora.torch.functions import broadcast_optimizer_state, broadcast_parameters
from hora.torch.optimizer import DistributedOptimizer

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "Compressor",
    "DistributedOptimizer",
    "Handle",
    "HorovodInternalError",
    "Max",
    "Min",
    "NotInitializedError",
    "Product",
    "ReduceOp",
    "Sum",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "global_process_set",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "poll",
    "rank",
    "shutdown",
    "size",
    "synchronize",
]
