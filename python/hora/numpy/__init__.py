"""The collectives for NumPy arrays; package ``hora`` itself exports them.

Examples
--------
>>> import hora.numpy, numpy as np
>>> hora.init()
>>> hora.numpy.allreduce(np.ones(2))
array([1., 1.])
"""

from __future__ import annotations

from hora._grouped import GroupedCollectives
from hora._handle import poll, synchronize
from hora._ops import Collectives, barrier, join
from hora.compression import Compressions
from hora.numpy.adapter import NumpyAdapter
from hora.numpy.memory import shared_empty

__all__ = [
    "Compression",
    "allgather",
    "allgather_async",
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
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "shared_empty",
    "synchronize",
]

_adapter = NumpyAdapter()
_collectives = Collectives(_adapter)
_grouped = GroupedCollectives(_collectives)

Compression = Compressions(_adapter)

allreduce = _collectives.allreduce
allreduce_ = _collectives.allreduce_
allreduce_async = _collectives.allreduce_async
allreduce_async_ = _collectives.allreduce_async_
allgather = _collectives.allgather
allgather_async = _collectives.allgather_async
broadcast = _collectives.broadcast
broadcast_ = _collectives.broadcast_
broadcast_async = _collectives.broadcast_async
broadcast_async_ = _collectives.broadcast_async_
alltoall = _collectives.alltoall
alltoall_async = _collectives.alltoall_async
reducescatter = _collectives.reducescatter
reducescatter_async = _collectives.reducescatter_async
grouped_allreduce = _grouped.grouped_allreduce
grouped_allreduce_ = _grouped.grouped_allreduce_
grouped_allreduce_async = _grouped.grouped_allreduce_async
grouped_allreduce_async_ = _grouped.grouped_allreduce_async_
grouped_allgather = _grouped.grouped_allgather
grouped_allgather_async = _grouped.grouped_allgather_async
grouped_reducescatter = _grouped.grouped_reducescatter
grouped_reducescatter_async = _grouped.grouped_reducescatter_async
