"""The collectives for PyTorch tensors, as exported by ``hora.torch``."""

from __future__ import annotations

from hora._ops import Collectives
from hora.compression import Compressions
from hora.torch.adapter import TorchAdapter

__all__ = [
    "Compression",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
]

_adapter = TorchAdapter()
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
