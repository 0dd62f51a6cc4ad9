"""``DistributedOptimizer``: an optimizer of Keras whose gradients are averaged over all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras

from hora._arguments import Average, Sum
from hora._groups import Groups
from hora.compression import Compressor, NoneCompressor
from hora.keras.reducing import ReducingOptimizer, Rule, make_reducing
from hora.keras.reduction import Options, make_reduction
from hora.process_sets import ProcessSet, global_process_set

__all__ = ["DistributedOptimizer", "PartialDistributedOptimizer"]


def DistributedOptimizer(
    optimizer: keras.optimizers.Optimizer,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = NoneCompressor,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Make an optimizer of Keras average its gradients over all ranks.

    Examples
    --------
    >>> import keras
    >>> import hora.keras as hvd
    >>> hvd.init()
    >>> optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    >>> weight = keras.Variable([1.0])
    >>> optimizer.apply([keras.ops.ones(1)], [weight])
    >>> round(float(weight[0]), 3)
    0.9
    """
    options = Options(
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    return wrap(optimizer, options, [], backward_passes_per_step, average_aggregated_gradients)


def wrap(
    optimizer: Any, options: Options, local_layers: Iterable[Any], passes: int, average_passes: bool
) -> Any:
    """Check the arguments and make the optimizer reduce."""
    check_optimizer(optimizer)
    if options.op not in (Average, Sum):
        raise ValueError("gradients of Keras are reduced with op=Average or op=Sum")
    make_reducing(optimizer, Rule(make_reduction(options), local_layers, 1.0))
    return optimizer


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is no optimizer of Keras 3, and one that reduces already."""
    if isinstance(optimizer, ReducingOptimizer):
        raise ValueError("the optimizer is a DistributedOptimizer already")
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        kind = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
        raise ValueError(f"expected an optimizer of Keras 3 (keras.optimizers.Optimizer), not {kind}")


def PartialDistributedOptimizer(
    optimizer: keras.optimizers.Optimizer,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = NoneCompressor,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Make a :func:`DistributedOptimizer` that leaves the gradients of some layers as they are."""
    raise NotImplementedError
