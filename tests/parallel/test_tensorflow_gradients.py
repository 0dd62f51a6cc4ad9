"""Gradients of the collectives of `hora.tensorflow`: the same as those of `hora.torch`."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import tensorflow as tf
from tensorflow_ranks import RANK, SIZE, Mode, in_both_modes

import hora
import hora.tensorflow as hvd

RANKS = (2, 3)
LAUNCH = "tensorflow"

DTYPE = tf.float64


def weights(shape: tuple[int, ...], rank: int) -> numpy.ndarray:
    """Return what rank `rank` multiplies its result with to get its loss."""
    return numpy.random.default_rng([7, rank]).normal(size=shape)


def gradient_of(
    mode: Mode, collective: Callable[[tf.Tensor], tf.Tensor], value: numpy.ndarray
) -> numpy.ndarray:
    """Return the gradient, with regard to this rank's value, of its own loss."""

    def compute(tensor: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            result = collective(tensor)
            loss = tf.reduce_sum(result * factors)
        return tape.gradient(loss, tensor)

    shape = collective(tf.constant(value, DTYPE)).shape
    factors = tf.constant(weights(tuple(shape), RANK), DTYPE)
    return mode(compute)(tf.constant(value, DTYPE)).numpy()


def mean(parts: list[numpy.ndarray]) -> numpy.ndarray:
    return numpy.stack(parts).mean(axis=0)


@in_both_modes
@pytest.mark.parametrize("factors", [(1.0, 1.0), (2.0, 0.25)])
@pytest.mark.parametrize("reduction", ["Average", "Sum"])
def test_allreduce_reduces_the_gradient_likewise(
    mode: Mode, reduction: str, factors: tuple[float, float]
) -> None:
    before, after = factors
    got = gradient_of(
        mode,
        lambda value: hvd.allreduce(
            value, op=getattr(hvd, reduction), prescale_factor=before, postscale_factor=after
        ),
        numpy.ones((3, 2)),
    )
    expected = mean([weights((3, 2), rank) for rank in range(SIZE)]) * before * after
    numpy.testing.assert_allclose(got, expected * (SIZE if reduction == "Sum" else 1), rtol=1e-12)


@in_both_modes
def test_allgather_gives_each_rank_the_mean_gradient_of_its_rows(mode: Mode) -> None:
    rows = [rank + 1 for rank in range(SIZE)]
    got = gradient_of(mode, hvd.allgather, numpy.ones((rows[RANK], 2)))
    expected = mean([weights((sum(rows), 2), rank) for rank in range(SIZE)])
    first = sum(rows[:RANK])
    numpy.testing.assert_allclose(got, expected[first : first + rows[RANK]], rtol=1e-12)


@in_both_modes
def test_broadcast_gives_the_root_the_mean_gradient(mode: Mode) -> None:
    root = SIZE - 1
    got = gradient_of(mode, lambda value: hvd.broadcast(value, root), numpy.ones((2, 2)))
    expected = mean([weights((2, 2), rank) for rank in range(SIZE)])
    numpy.testing.assert_allclose(got, expected if root == RANK else numpy.zeros((2, 2)), rtol=1e-12)


@in_both_modes
def test_alltoall_sends_gradients_back(mode: Mode) -> None:
    splits = [[(rank + peer) % 2 + 1 for peer in range(SIZE)] for rank in range(SIZE)]
    got = gradient_of(
        mode, lambda value: hvd.alltoall(value, splits[RANK])[0], numpy.ones((sum(splits[RANK]), 2))
    )
    parts = []
    for peer in range(SIZE):
        of_peer = weights((sum(splits[rank][peer] for rank in range(SIZE)), 2), peer)
        first = sum(splits[rank][peer] for rank in range(RANK))
        parts.append(of_peer[first : first + splits[RANK][peer]])
    numpy.testing.assert_allclose(got, numpy.concatenate(parts), rtol=1e-12)


@in_both_modes
@pytest.mark.parametrize("reduction", ["Average", "Sum"])
def test_reducescatter_gathers_the_gradient(mode: Mode, reduction: str) -> None:
    rows = 2 * SIZE
    got = gradient_of(
        mode, lambda value: hvd.reducescatter(value, op=getattr(hvd, reduction)), numpy.ones((rows, 3))
    )
    expected = numpy.concatenate([weights((2, 3), rank) for rank in range(SIZE)])
    numpy.testing.assert_allclose(got, expected * (SIZE if reduction == "Sum" else 1), rtol=1e-12)


@in_both_modes
def test_only_floats_of_a_group_have_gradients(mode: Mode) -> None:
    def compute(value: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(value)
            floats, integers = hvd.grouped_allreduce([value, tf.constant([2, 3])], op=hvd.Sum)
            loss = tf.reduce_sum(floats * tf.cast(integers, DTYPE))
        return tape.gradient(loss, value)

    got = mode(compute)(tf.ones(2, DTYPE))
    assert got.numpy().tolist() == [2 * SIZE * SIZE, 3 * SIZE * SIZE]


@in_both_modes
def test_gradients_go_through_compression(mode: Mode) -> None:
    got = gradient_of(
        mode, lambda value: hvd.allreduce(value, compression=hvd.Compression.fp16), numpy.ones(2)
    )
    numpy.testing.assert_allclose(got, mean([weights((2,), rank) for rank in range(SIZE)]), rtol=2e-3)


@in_both_modes
def test_second_derivatives_exist(mode: Mode) -> None:
    def compute(value: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as outer:
            outer.watch(value)
            with tf.GradientTape() as inner:
                inner.watch(value)
                result = hvd.allreduce(value * value * value)
            first = inner.gradient(result, value)
        return outer.gradient(first, value)

    assert float(mode(compute)(tf.constant(2.0, DTYPE))) == pytest.approx(12.0)


def test_other_reductions_have_no_gradient() -> None:
    value = tf.ones(2)
    with tf.GradientTape() as tape:
        tape.watch(value)
        result = hvd.allreduce(value, op=hvd.Max)
    with pytest.raises(NotImplementedError, match="op=Average and op=Sum"):
        tape.gradient(result, value)
    hora.barrier()
