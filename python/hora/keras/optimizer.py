"""``DistributedOptimizer``: an optimizer of Keras whose gradients are averaged over all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras

from hora._arguments import Average, Sum
from hora._groups import Groups
from hora.compression import Compressor, NoneCompressor
from hora.keras.compilation import leave_uncompiled
from hora.keras.reducing import make_reducing, reduces
from hora.keras.reduction import Options, make_reduction
from hora.keras.rule import Rule
from hora.keras.scaling import reduce_before_scaling
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

    Whatever calls the optimizer's ``apply``, ``model.fit`` or a loop of one's own, the gradients are reduced
    before anything else is done with them: clipping, accumulation, weight decay and the look for infinities
    of a ``LossScaleOptimizer``, which may be inside or outside. So with equal initial variables N ranks do
    what one process does on their joined batches, and their variables stay equal bit by bit. All
    ranks apply gradients of the same variables in the same order; a gradient that is None must be so on all.

    Models with the optimizer are trained with ``jit_compile=False``; a warning says so where Keras would have
    compiled the step with XLA.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer
        Changed in place and returned. Its class keeps its name and its configuration, so a saved model
        loads where hora is not installed.
    name, device_dense, device_sparse : str
        Accepted as in Horovod.
    compression : Compressor
        Converts gradients before they are sent and back, such as ``Compression.fp16``.
    sparse_as_dense : bool
        Reduce gradients that are sparse (``tf.IndexedSlices``, those of embeddings) as dense ones. Otherwise
        the entries of all ranks are gathered.
    gradient_predivide_factor : float
        Divides gradients by this factor before their sum is formed and by the rest of the number of ranks
        after it. Needs ``op=Average``.
    op : optional
        ``Average`` (default) or ``Sum``.
    backward_passes_per_step : int
        Update variables once in so many calls, by gradients added up meanwhile: Keras's
        ``gradient_accumulation_steps``, which is set to it. Needs an optimizer that is not built yet, or one
        that has the same already, such as of a model that ``keras.models.load_model`` has loaded.
    average_aggregated_gradients : bool
        Divide the gradients that were added up by their number, as ``gradient_accumulation_steps``
        and a model loaded from a file do.
    num_groups : int
        Deprecated spelling of ``groups``.
    groups : int or list of lists of variables, optional
        Gradients that are reduced in one operation. A number makes so many groups; variables in no list go
        alone. By default all go together, in a graph of TensorFlow neighbours up to 4 MiB.
    process_set : ProcessSet
        The ranks that train this model together; on others the optimizer behaves as before.
    scale_local_gradients : bool
        Divide gradients of local variables, see ``register_local_var``, by the number of ranks.

    Returns
    -------
    keras.optimizers.Optimizer
        The optimizer, with ``register_local_var(variable)`` besides, which leaves the gradient of a variable
        as each rank has it.

    Raises
    ------
    ValueError
        If an argument is wrong, the optimizer is none of Keras 3, or it is wrapped already.
    NotImplementedError
        If Keras runs on another backend than TensorFlow or PyTorch.
    NotInitializedError
        Before ``init()``.
    HorovodInternalError, tf.errors.OpError
        From ``apply`` and ``fit`` on all ranks, when their gradients differ in number, shape or dtype, or a
        rank left: on PyTorch the former, on TensorFlow those that :func:`hora.tensorflow.allreduce` raises.

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
    """Make a :func:`DistributedOptimizer` that leaves the gradients of some layers as they are.

    Parameters
    ----------
    local_layers : layer or iterable of layers, optional
        Those whose trainable variables are each rank's own. They need not be built yet.
    optimizer, name, device_dense, device_sparse, compression, sparse_as_dense
        As for :func:`DistributedOptimizer`.
    gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients
        As for :func:`DistributedOptimizer`.
    groups, process_set, scale_local_gradients
        As for :func:`DistributedOptimizer`.

    Examples
    --------
    >>> import keras
    >>> import hora.keras as hvd
    >>> hvd.init()
    >>> head = keras.layers.Dense(1)
    >>> optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(), local_layers=[head])
    >>> isinstance(optimizer, keras.optimizers.SGD)
    True
    """
    options = Options(
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        0,
        groups,
        process_set,
        scale_local_gradients,
    )
    layers = layers_of(local_layers)
    return wrap(optimizer, options, layers, backward_passes_per_step, average_aggregated_gradients)


def wrap(
    optimizer: Any, options: Options, local_layers: Iterable[Any], passes: int, average_passes: bool
) -> Any:
    """Check the arguments and make the optimizer reduce."""
    check_optimizer(optimizer)
    if options.op not in (Average, Sum):
        raise ValueError("gradients of Keras are reduced with op=Average or op=Sum")
    reduction = make_reduction(options)
    if passes != 1:
        accumulate(getattr(optimizer, "inner_optimizer", optimizer), passes)
    reduce_before_scaling()
    leave_uncompiled()
    make_reducing(optimizer, Rule(reduction, local_layers, 1.0 if average_passes else float(passes)))
    return optimizer


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is no optimizer of Keras 3, and one that reduces already."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        kind = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
        raise ValueError(
            f"expected an optimizer of Keras 3, a keras.optimizers.Optimizer of Keras {keras.__version__}, "
            f"not {kind}"
        )
    if reduces(optimizer):
        raise ValueError("the optimizer, or one inside of it, is a DistributedOptimizer already")


def accumulate(optimizer: Any, passes: int) -> None:
    """Make an optimizer add up the gradients of several calls."""
    if not isinstance(passes, int) or passes < 1:
        raise ValueError(f"backward_passes_per_step must be an integer from 1, not {passes!r}")
    if optimizer.gradient_accumulation_steps == passes:
        return
    if optimizer.gradient_accumulation_steps:
        raise ValueError(
            f"backward_passes_per_step={passes} contradicts the optimizer's gradient_accumulation_steps="
            f"{optimizer.gradient_accumulation_steps}"
        )
    if hasattr(optimizer, "optimizers"):
        raise ValueError("set gradient_accumulation_steps of the optimizers inside of this one instead")
    if optimizer.built:
        raise ValueError("backward_passes_per_step needs an optimizer that is not built yet")
    optimizer.gradient_accumulation_steps = passes


def layers_of(local_layers: Any) -> Iterable[Any]:
    """Return the layers; one by itself will do."""
    if local_layers is None:
        return []
    return [local_layers] if hasattr(local_layers, "trainable_variables") else local_layers
