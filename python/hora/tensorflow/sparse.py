"""Reducing ``tf.IndexedSlices``: the slices of all ranks are gathered."""

from __future__ import annotations

import tensorflow as tf

from hora._arguments import Average, Sum
from hora.compression import Compressor
from hora.tensorflow import operations
from hora.tensorflow.call import Tensor, Terms
from hora.tensorflow.calls import to_tensor

__all__ = ["allreduce_slices", "check_slices"]


def check_slices(slices: tf.IndexedSlices, terms: Terms) -> None:
    """Refuse what cannot be done with slices."""
    to_tensor(slices.values)
    if terms.reduction not in (Average, Sum):
        raise ValueError("of tf.IndexedSlices there are op=Average and op=Sum only")
    if terms.reduction == Average and not slices.values.dtype.is_floating:
        raise ValueError("the Average of tf.IndexedSlices needs a floating-point dtype; use Sum")
    if (terms.prescale, terms.postscale) != (1.0, 1.0):
        raise ValueError("tf.IndexedSlices are reduced without prescale_factor and postscale_factor")


def allreduce_slices(
    slices: tf.IndexedSlices, terms: Terms, compression: Compressor, merge: bool = True
) -> tf.IndexedSlices:
    """Reduce slices that were checked.

    With ``merge`` those of one index are added up before they are sent. Ranks may have different numbers of
    slices, or none.
    """
    indices, values = slices.indices, slices.values
    if merge:
        indices, position = tf.unique(indices)
        values = tf.math.unsorted_segment_sum(values, position, tf.size(indices))
    sent, context = compression.compress(values)
    # The third tells how many ranks contributed: those that have joined send nothing.
    gathered = operations.allgather([indices, sent, tf.ones([1], tf.int32)], terms)
    values = compression.decompress(gathered[1], context)
    if terms.reduction == Average:
        values = divided(values, tf.size(gathered[2]))
    return tf.IndexedSlices(values, gathered[0], slices.dense_shape)


def divided(values: Tensor, divisor: Tensor) -> Tensor:
    """Return the values divided by an integer."""
    return values / tf.cast(divisor, values.dtype)
