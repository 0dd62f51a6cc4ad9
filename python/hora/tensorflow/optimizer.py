"""``DistributedOptimizer`` at the address that it has for TensorFlow."""

from __future__ import annotations

from typing import Any

from hora._arguments import Average
from hora._groups import Groups
from hora.compression import Compressor, NoneCompressor
from hora.process_sets import ProcessSet, global_process_set

__all__ = ["DistributedOptimizer"]


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = NoneCompressor,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Make an optimizer of Keras average its gradients over all ranks; see :mod:`hora.keras`.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer
        Changed in place and returned. Optimizers of TensorFlow 1 are refused.
    use_locking : bool
        Accepted as in Horovod.
    name, device_dense, device_sparse, compression, sparse_as_dense, backward_passes_per_step, op
        As for :func:`hora.keras.DistributedOptimizer`.
    gradient_predivide_factor, average_aggregated_gradients, num_groups, groups, process_set
        As for :func:`hora.keras.DistributedOptimizer`.
    scale_local_gradients
        As for :func:`hora.keras.DistributedOptimizer`.

    Raises
    ------
    ValueError
        If an argument is wrong, or the optimizer is none of Keras 3.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam())
    >>> isinstance(optimizer, tf.keras.optimizers.Adam)
    True
    """
    from hora.tensorflow import keras

    return keras.DistributedOptimizer(
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step,
        average_aggregated_gradients,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
