"""``DistributedGradientTape``: a gradient tape whose gradients are averaged over all ranks.

The user's tape stays what it is and only gets another class: a subclass of its own, made on the spot.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from hora._arguments import Average
from hora.compression import Compressor, NoneCompressor
from hora.process_sets import ProcessSet, global_process_set
from hora.tensorflow.gradients import GradientRule, Groups, identity, make_rule

__all__ = ["DistributedGradientTape", "PartialDistributedGradientTape", "ReducingTape"]


class ReducingTape:
    """What a tape gains."""

    _hora_rule: GradientRule
    _hora_local: dict[int, Any]

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
        use_generic_names: bool = False,
    ) -> Any:
        """Return the gradients as the tape does, reduced over all ranks."""
        gradients = super().gradient(  # type: ignore[misc]
            target, sources, output_gradients, unconnected_gradients
        )
        flat = tf.nest.flatten(sources)
        with tf.name_scope("DistributedGradientTape"):
            reduced = self._hora_rule.reduce(flat, tf.nest.flatten(gradients), set(self._hora_local))
        return tf.nest.pack_sequence_as(sources, reduced)

    def register_local_source(self, source: Any) -> None:
        """Leave the gradient of a source as this rank has it."""
        self._hora_local[identity(source)] = source


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = NoneCompressor,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Make a tape's ``gradient`` reduce what it has computed over all ranks.

    Inside a ``tf.function`` reductions begin as soon as some gradients are computed and go on beside the rest
    of the backward pass. All ranks ask for the gradients of the same sources in the same
    order; a gradient that is None must be so on all of them.

    Parameters
    ----------
    gradtape : tf.GradientTape
        Changed in place and returned, before or after its ``with`` block.
    device_dense, device_sparse : str
        Accepted as in Horovod; collectives run in host memory.
    compression : Compressor
        Converts gradients before they are sent and back, such as ``Compression.fp16``.
    sparse_as_dense : bool
        Reduce gradients that are ``tf.IndexedSlices`` as dense ones.
    op : optional
        ``Average`` (default), ``Sum`` or ``Adasum``.
    gradient_predivide_factor : float
        Divides gradients by this factor before their sum is formed and by the rest of the number of ranks
        after it. Needs ``op=Average``.
    num_groups : int
        Deprecated spelling of ``groups``.
    groups : int or list of lists of variables, optional
        Gradients that are reduced in one operation. A number makes so many groups; sources in no list go
        alone. Without it, neighbours go together up to 4 MiB in a graph, and in eager mode all.
    process_set : ProcessSet
        The ranks that train this model together; on others the tape behaves as before.
    scale_local_gradients : bool
        Divide gradients of local sources, see ``register_local_source``, by the number of ranks.

    Returns
    -------
    tf.GradientTape
        The tape, with ``register_local_source(source)`` besides.

    Raises
    ------
    ValueError
        If an argument is wrong, or the tape is wrapped already.
    NotInitializedError
        Before ``init()``.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> weight = tf.Variable(2.0)
    >>> with tf.GradientTape() as tape:
    ...     loss = weight * weight
    >>> float(hvd.DistributedGradientTape(tape).gradient(loss, weight))
    4.0
    """
    if not isinstance(gradtape, tf.GradientTape):
        raise ValueError(f"expected a tf.GradientTape, not {type(gradtape).__name__}")
    if isinstance(gradtape, ReducingTape):
        raise ValueError("the tape is a DistributedGradientTape already")
    gradtape._hora_rule = make_rule(
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    gradtape._hora_local = {}
    gradtape.__class__ = type("DistributedGradientTape", (ReducingTape, type(gradtape)), {})
    return gradtape


def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = NoneCompressor,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Make a :func:`DistributedGradientTape` that leaves the gradients of some layers as they are.

    Parameters
    ----------
    local_layers : layer or iterable of layers, optional
        Those whose trainable variables are each rank's own.
    gradtape, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor
        As for :func:`DistributedGradientTape`.
    num_groups, groups, process_set, scale_local_gradients
        As for :func:`DistributedGradientTape`.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> head = tf.keras.layers.Dense(1)
    >>> with tf.GradientTape() as tape:
    ...     loss = tf.reduce_sum(head(tf.ones((1, 2))))
    >>> tape = hvd.PartialDistributedGradientTape(tape, local_layers=[head], scale_local_gradients=False)
    >>> [each.shape.as_list() for each in tape.gradient(loss, head.trainable_variables)]
    [[2, 1], [1]]
    """
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for layer in layers_of(local_layers):
        for variable in layer.trainable_variables:
            tape.register_local_source(variable)
    return tape


def layers_of(local_layers: Any) -> Iterable[Any]:
    """Return the layers; one by itself will do."""
    if local_layers is None:
        return []
    return [local_layers] if hasattr(local_layers, "trainable_variables") else local_layers
