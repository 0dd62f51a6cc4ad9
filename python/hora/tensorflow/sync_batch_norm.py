"""Batch normalisation over the batches of all ranks, as a layer of Keras.

Imported when somebody asks for the layer, for it brings in Keras.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hora import _core
from hora._arguments import Sum
from hora.tensorflow.call import Tensor, Terms, kernels
from hora.tensorflow.calls import record

__all__ = ["SyncBatchNormalization"]


@tf.keras.utils.register_keras_serializable(package="hora")
class SyncBatchNormalization(tf.keras.layers.BatchNormalization):  # type: ignore[misc]
    """Batch normalisation whose mean and variance are those of all ranks' batches together.

    In training, the ranks exchange each channel's count, mean and variance once in the forward and their
    gradients once in the backward pass, so all ranks must run the layer. Their batches may differ in size and
    may be empty. In evaluation it is a plain ``BatchNormalization``.

    Parameters
    ----------
    fused : bool
        Must be False, as in Horovod.
    **kwargs
        Those of ``keras.layers.BatchNormalization``.

    Raises
    ------
    ValueError
        If ``fused`` is asked for, or Keras does not run on TensorFlow.

    Examples
    --------
    >>> import tensorflow as tf
    >>> import hora.tensorflow as hvd
    >>> hvd.init()
    >>> layer = hvd.SyncBatchNormalization(momentum=0.9)
    >>> layer(tf.random.normal((5, 4, 4, 3)), training=True).shape.as_list()
    [5, 4, 4, 3]
    """

    def __init__(self, fused: bool = False, **kwargs: Any) -> None:
        if fused:
            raise ValueError("SyncBatchNormalization cannot be fused; leave out fused=True")
        if tf.keras.backend.backend() != "tensorflow" or not hasattr(self, "_moments"):
            raise ValueError("SyncBatchNormalization needs Keras 3 with the TensorFlow backend")
        super().__init__(**kwargs)
        self.supports_jit = False

    def _moments(self, inputs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return mean and variance of each channel, which Keras normalises with."""
        if _core.size() == 1:
            return super()._moments(inputs, mask)  # type: ignore[no-any-return]
        return joined_moments(inputs, mask, self._reduction_axes)


def joined_moments(inputs: Tensor, mask: Tensor | None, axes: list[int]) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each channel over all ranks.

    Each rank sends its counts, means and sums of squared deviations, which are combined as by Chan et al.,
    "Algorithms for computing the sample variance" (1983): no large numbers of similar size are subtracted.
    """
    weights = tf.ones_like(inputs)
    if mask is not None:
        weights *= tf.cast(tf.expand_dims(mask, -1), inputs.dtype)
    count = tf.reduce_sum(weights, axes, keepdims=True)
    mean = tf.math.divide_no_nan(tf.reduce_sum(weights * inputs, axes, keepdims=True), count)
    deviations = tf.reduce_sum(weights * tf.square(inputs - mean), axes)
    own = tf.stack([tf.reshape(count, [-1]), tf.reshape(mean, [-1]), deviations])
    counts, means, sums = tf.unstack(gather(own[tf.newaxis]), num=3, axis=1)
    total = tf.reduce_sum(counts, 0)
    joined = tf.math.divide_no_nan(tf.reduce_sum(counts * means, 0), total)
    spread = tf.reduce_sum(sums + counts * tf.square(means - joined), 0)
    return joined, tf.math.divide_no_nan(spread, total)


def gather(own: Tensor) -> Tensor:
    """Return the rows of all ranks; the gradient of one is the sum of what the ranks have for it."""
    terms = Terms(reduction=Sum, node="sync_batch_norm")

    def backward(gradients: list[Tensor], numbers: list[int]) -> list[Tensor]:
        return kernels().reducescatter(gradients, terms)

    return record([own], lambda values: kernels().allgather(values, terms)[0], backward)[0]
