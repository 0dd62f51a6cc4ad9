"""Hora for TensorFlow 2: ``import hora.tensorflow as hvd`` in place of ``import horovod.tensorflow as hvd``.

Examples
--------
>>> import tensorflow as tf
>>> import hora.tensorflow as hvd
>>> hvd.init()
>>> hvd.allreduce(tf.ones(2)).numpy().tolist()
[1.0, 1.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import tensorflow as _tensorflow
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        "hora.tensorflow needs TensorFlow 2.16 or later, which is not installed; install it with: "
        "pip install tensorflow"
    ) from error

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
from hora.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from hora.tensorflow.absent import BroadcastGlobalVariablesHook, broadcast_global_variables
from hora.tensorflow.collectives import (
    allgather,
    alltoall,
    broadcast,
    broadcast_,
    grouped_allgather,
    join,
)
from hora.tensorflow.functions import (
    allgather_object,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from hora.tensorflow.optimizer import DistributedOptimizer
from hora.tensorflow.reductions import (
    Compression,
    allreduce,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from hora.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from hora.tensorflow.world import (
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)

if TYPE_CHECKING:
    from hora.tensorflow.sync_batch_norm import SyncBatchNormalization


def __getattr__(name: str) -> Any:
    """Import what needs Keras when it is asked for."""
    if name == "SyncBatchNormalization":
        from hora.tensorflow import sync_batch_norm

        return sync_batch_norm.SyncBatchNormalization
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# These need no rewriting by AutoGraph when a tf.function calls them.
_AS_WRITTEN = (
    allgather,
    allreduce,
    alltoall,
    broadcast,
    broadcast_,
    broadcast_variables,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    reducescatter,
    size_op,
    DistributedGradientTape,
    PartialDistributedGradientTape,
)
globals().update(
    {each.__name__: _tensorflow.autograph.experimental.do_not_convert(each) for each in _AS_WRITTEN}
)

__all__ = [
    "Adasum",
    "Average",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "Compressor",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "NotInitializedError",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "Sum",
    "SyncBatchNormalization",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "metrics",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
]
