"""Hora for Keras 3: ``import hora.keras as hvd`` in place of ``import horovod.keras as hvd``.

It works with the backends TensorFlow and PyTorch of Keras.

Examples
--------
>>> import numpy as np
>>> import hora.keras as hvd
>>> hvd.init()
>>> hvd.allreduce(np.ones(2))
array([1., 1.])
"""

from __future__ import annotations

try:
    import keras as _keras
except ModuleNotFoundError as error:
    if error.name != "keras":
        raise
    raise ImportError(
        "hora.keras needs Keras 3, which is not installed; install it with: pip install keras"
    ) from error

if int(_keras.__version__.split(".")[0]) < 3:
    raise ImportError(f"hora.keras needs Keras 3, not {_keras.__version__}")

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
from hora.keras import callbacks
from hora.keras.loading import load_model
from hora.keras.optimizer import DistributedOptimizer, PartialDistributedOptimizer
from hora.keras.values import (
    Compression,
    allgather,
    allreduce,
    broadcast,
    broadcast_global_variables,
    reducescatter,
)
from hora.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "Compressor",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "NotInitializedError",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "load_model",
    "local_rank",
    "local_size",
    "metrics",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
