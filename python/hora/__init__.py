"""Hora: collective communication for data-parallel deep learning.

This package works on NumPy arrays; ``hora.torch`` has the same functions for PyTorch and its
``DistributedOptimizer``. Start several ranks with ``mpirun -np N python script.py``; under plain ``python``
there is one rank.

Examples
--------
>>> import hora, numpy as np
>>> hora.init()
>>> int(hora.allreduce(np.array(hora.rank()), op=hora.Max)) == hora.size() - 1
True
"""

from __future__ import annotations

import importlib.metadata

try:
    from hora import _core as _core
except ImportError as error:
    raise ImportError(
        f"hora's extension module cannot be loaded ({error}); build it: `pip install .` in the source folder"
    ) from error

from hora import elastic
from hora._arguments import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from hora._features import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    metrics,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
    start_timeline,
    stop_timeline,
)
from hora._handle import Handle
from hora._objects import allgather_object, broadcast_object
from hora._signals import stop_requested
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
from hora.numpy import (
    Compression,
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    join,
    poll,
    reducescatter,
    reducescatter_async,
    synchronize,
)
from hora.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "Compressor",
    "Handle",
    "HorovodInternalError",
    "Max",
    "Min",
    "NotInitializedError",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "metrics",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_requested",
    "stop_timeline",
    "synchronize",
]

try:
    __version__ = importlib.metadata.version("hora")
except importlib.metadata.PackageNotFoundError:  # imported from a source tree that was never installed
    __version__ = "0+unknown"
