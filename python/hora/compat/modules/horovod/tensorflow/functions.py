"""``horovod.tensorflow.functions``: giving all ranks the root's variables and objects."""

from __future__ import annotations

from hora.tensorflow import (
    allgather_object,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)

__all__ = ["allgather_object", "broadcast_object", "broadcast_object_fn", "broadcast_variables"]
