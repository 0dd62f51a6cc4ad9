"""The collectives as operations of a list of tensors that TensorFlow can differentiate.

Their gradients are those of :mod:`hora._gradients`. The collectives of a backward pass are unnamed.
"""

from __future__ import annotations

from dataclasses import replace

import tensorflow as tf

from hora import _core
from hora._arguments import Average, Sum
from hora._gradients import require_gradient
from hora.tensorflow.call import Tensor, Terms, kernels
from hora.tensorflow.calls import record

__all__ = ["allgather", "allreduce", "alltoall", "broadcast", "reducescatter"]


def backward_terms(terms: Terms, reduction: int = Sum) -> Terms:
    """Return the terms of a collective in the backward pass."""
    return Terms(process_set=terms.process_set, reduction=reduction)


def members_of(terms: Terms) -> list[int]:
    """Return the ranks that take part."""
    return _core.process_set_ranks(terms.process_set)


def allreduce(tensors: list[Tensor], terms: Terms) -> list[Tensor]:
    """Reduce each tensor; so is the gradient."""

    def backward(gradients: list[Tensor], numbers: list[int]) -> list[Tensor]:
        require_gradient(None, terms.reduction)
        return allreduce(gradients, replace(terms, name=None, node=None))

    return record(tensors, lambda values: kernels().allreduce(values, terms), backward)


def allgather(tensors: list[Tensor], terms: Terms) -> list[Tensor]:
    """Concatenate rows; a rank's gradient is the mean of what the ranks have for its rows."""
    found: list[Tensor] = []

    def forward(values: list[Tensor]) -> list[Tensor]:
        results, rows = kernels().allgather(values, terms)
        found.append(rows)
        return results

    def backward(gradients: list[Tensor], numbers: list[int]) -> list[Tensor]:
        own = members_of(terms).index(_core.rank())
        rows = found[0]
        averaged = allreduce(gradients, backward_terms(terms, Average))
        first = tf.reduce_sum(rows[:, :own], axis=1)
        return [
            each[first[number] : first[number] + rows[number, own]]
            for number, each in zip(numbers, averaged, strict=True)
        ]

    return record(tensors, forward, backward)


def broadcast(tensors: list[Tensor], terms: Terms) -> list[Tensor]:
    """Copy the root's tensors; its gradient is the mean of the ranks', that of the others zero."""

    def backward(gradients: list[Tensor], numbers: list[int]) -> list[Tensor]:
        averaged = allreduce(gradients, backward_terms(terms, Average))
        is_root = _core.rank() == terms.root
        return averaged if is_root else [tf.zeros_like(each) for each in averaged]

    return record(tensors, lambda values: kernels().broadcast(values, terms), backward)


def alltoall(tensor: Tensor, splits: Tensor, terms: Terms) -> tuple[Tensor, Tensor]:
    """Exchange rows; the gradient's rows go back to where they came from."""
    found: list[Tensor] = []

    def forward(values: list[Tensor]) -> list[Tensor]:
        result, received = kernels().alltoall(values[0], splits, terms)
        found.append(received)
        return [result]

    def backward(gradients: list[Tensor], numbers: list[int]) -> list[Tensor]:
        return [alltoall(each, found[0], backward_terms(terms))[0] for each in gradients]

    return record([tensor], forward, backward)[0], found[0]


def reducescatter(tensors: list[Tensor], terms: Terms) -> list[Tensor]:
    """Reduce each tensor and return this rank's rows; the gradient is gathered, times size for Sum."""

    def backward(gradients: list[Tensor], numbers: list[int]) -> list[Tensor]:
        scale = terms.prescale * terms.postscale
        if terms.reduction == Sum:
            scale *= len(members_of(terms))
        scaled = [each if scale == 1 else each * tf.cast(scale, each.dtype) for each in gradients]
        return allgather(scaled, backward_terms(terms))

    return record(tensors, lambda values: kernels().reducescatter(values, terms), backward)
