"""Reducing the gradients that a step has computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from hora._arguments import Adasum, Average, Sum, choose_op, set_id
from hora._groups import Groups, ReadGroups, batches, read_groups
from hora.compression import Compressor
from hora.process_sets import ProcessSet
from hora.tensorflow.call import Tensor, Terms, check_dtype, kernels
from hora.tensorflow.sparse import allreduce_slices, check_slices

__all__ = ["GradientRule", "Groups", "as_written", "identity", "make_rule", "scaled"]

#: How large gradients are that a graph reduces in one operation: enough for its cost not to matter.
RUN_BYTES = 4 << 20

#: How long a thread of TensorFlow works for the only reduction of a step, when it is small: the rest of the
#: graph waits for its results. Changes of threads cost more than such a reduction; ranks that do alike arrive
#: in this time.
PATIENCE_US = 1000


#: Makes a function that AutoGraph does not rewrite.
as_written = tf.autograph.experimental.do_not_convert


def identity(variable: Any) -> int:
    """Return what tells a variable from others; one of Keras is the variable of TensorFlow inside it."""
    inner = getattr(variable, "value", None)
    return id(inner if isinstance(inner, tf.Variable) else variable)


def scaled(gradient: Any, factor: float) -> Any:
    """Return a gradient times a factor."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(scaled(gradient.values, factor), gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


@dataclass(frozen=True)
class GradientRule:
    """How gradients are reduced: the arguments of ``DistributedGradientTape``."""

    reduction: int
    prescale: float
    postscale: float
    compression: Compressor
    sparse_as_dense: bool
    groups: ReadGroups
    process_set: ProcessSet
    scale_local: bool

    def reduce(self, variables: Sequence[Any], gradients: Sequence[Any], local: set[int]) -> list[Any]:
        """Return the gradients, reduced over all ranks; those of ``local`` variables are not.

        A gradient that is None stays so, on all ranks alike.
        """
        results = list(gradients)
        if not self.process_set.included() or len(self.process_set.ranks) == 1:
            return results
        dense = []
        has_slices = False
        for at, each in enumerate(gradients):
            if each is None:
                continue
            if identity(variables[at]) in local:
                results[at] = self.local(each)
            elif isinstance(each, tf.IndexedSlices) and not self.sparse_as_dense:
                results[at] = self.reduce_slices(each, at)
                has_slices = True
            else:
                dense.append(at)
        batches = self.batches(dense, variables, gradients)
        is_quick = sum(size_of(variables[at], gradients[at]) for at in dense) < RUN_BYTES
        patience_us = PATIENCE_US if is_quick and len(batches) == 1 and not has_slices else 0
        for batch in batches:
            terms = replace(self.terms(f"gradient_{batch[0]}"), patience_us=patience_us)
            reduced = self.reduce_together([gradients[at] for at in batch], terms)
            for at, result in zip(batch, reduced, strict=True):
                results[at] = result
        return results

    def local(self, gradient: Any) -> Any:
        """Return the gradient of a variable that is this rank's own."""
        share = 1.0 / len(self.process_set.ranks) if self.scale_local else 1.0
        return scaled(gradient, share)

    def reduce_slices(self, gradient: tf.IndexedSlices, number: int) -> tf.IndexedSlices:
        """Reduce one gradient by gathering its slices, as they are.

        Optimizers square slices and take their norm, so what one process would keep apart must not be added
        up here.
        """
        terms = replace(self.terms(f"gradient_{number}"), prescale=1.0, postscale=1.0)
        check_slices(gradient, terms)
        return allreduce_slices(gradient, terms, self.compression, merge=False)

    def terms(self, node: str) -> Terms:
        """Return the terms of one reduction, whose node in a graph is called so."""
        return Terms(None, set_id(self.process_set), self.reduction, self.prescale, self.postscale, node=node)

    def batches(
        self, dense: list[int], variables: Sequence[Any], gradients: Sequence[Any]
    ) -> list[list[int]]:
        """Return which gradients are reduced in one operation.

        Where nothing is asked for: in eager mode all, since they are there at once; in a graph neighbours,
        whose reduction then begins while the rest is computed.
        """
        if not dense:
            return []
        if self.groups is None:
            return [dense] if tf.executing_eagerly() else neighbours(dense, variables, gradients)
        return batches(self.groups, dense, [identity(each) for each in variables])

    def reduce_together(self, gradients: list[Any], terms: Terms) -> list[Tensor]:
        """Reduce dense gradients in one operation."""
        pairs = [self.compression.compress(check_dtype(tf.convert_to_tensor(each))) for each in gradients]
        results = kernels().allreduce([sent for sent, _ in pairs], terms)
        return [
            self.compression.decompress(result, context)
            for result, (_, context) in zip(results, pairs, strict=True)
        ]


def size_of(variable: Any, gradient: Any) -> int:
    """Return how many bytes a gradient has; one of unknown size counts as large."""
    count = tf.TensorShape(variable.shape).num_elements()
    return RUN_BYTES if count is None else count * gradient.dtype.size


def neighbours(dense: list[int], variables: Sequence[Any], gradients: Sequence[Any]) -> list[list[int]]:
    """Return runs of gradients that are small together; one of unknown size goes alone.

    Sizes are those of variables, so that all ranks form the same runs, whatever batch they trace for.
    """
    runs: list[list[int]] = []
    room = 0
    for at in dense:
        size = size_of(variables[at], gradients[at])
        if size > room:
            runs.append([])
            room = RUN_BYTES
        runs[-1].append(at)
        room -= size
    return runs


def make_rule(
    compression: Compressor,
    sparse_as_dense: bool,
    op: int,
    gradient_predivide_factor: float,
    num_groups: int,
    groups: Groups,
    process_set: ProcessSet,
    scale_local_gradients: bool,
) -> GradientRule:
    """Check the arguments."""
    reduction = choose_op(None, op)
    if reduction not in (Average, Sum, Adasum):
        raise ValueError("gradients are reduced with op=Average, op=Sum or op=Adasum")
    factor = float(gradient_predivide_factor)
    if factor != 1.0 and reduction != Average:
        raise ValueError("gradient_predivide_factor needs op=Average")
    set_id(process_set)
    return GradientRule(
        reduction,
        1.0 / factor,
        factor,
        compression,
        sparse_as_dense,
        read_groups(num_groups, groups, identity),
        process_set,
        scale_local_gradients,
    )
