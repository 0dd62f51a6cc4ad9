"""The collectives for NumPy arrays; package ``hora`` itself exports them.

Examples
--------
>>> import hora.numpy, numpy as np
>>> hora.init()
>>> hora.numpy.allreduce(np.ones(2))
array([1., 1.])
"""

from __future__ import annotations

from hora._handle import poll, synchronize
from hora._ops import Collectives, barrier
from hora.compression import Compressions
from hora.numpy.adapter import NumpyAdapter

__all__ = [
    "Compression",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "poll",
    "synchronize",
]

_adapter = NumpyAdapter()
_collectives = Collectives(_adapter)

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
