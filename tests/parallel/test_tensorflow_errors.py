"""What `hora.tensorflow` raises, where, and that the job goes on."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow_ranks import RANK, SIZE, Mode, in_both_modes

import hora.tensorflow as hvd

RANKS = (2,)
LAUNCH = "tensorflow"


@pytest.fixture(autouse=True)
def works_afterwards() -> object:
    yield
    assert float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum)) == SIZE


@in_both_modes
def test_wrong_splits_fail_here_and_there(mode: Mode) -> None:
    error = tf.errors.InvalidArgumentError if RANK == 0 else tf.errors.FailedPreconditionError
    with pytest.raises(error, match="splits"):
        mode(lambda value: hvd.alltoall(value, [5 if RANK == 0 else 1, 1]))(tf.ones(2))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: hvd.grouped_allreduce([]), ValueError, "at least one tensor"),
        (lambda: hvd.grouped_allreduce(tf.ones(2)), TypeError, "a list of tensors"),
        (lambda: hvd.allreduce(tf.constant("text")), ValueError, "string"),
        (lambda: hvd.allreduce(tf.ones(1), name=3), TypeError, "name must be"),
        (lambda: hvd.broadcast_([tf.ones(1)], 0), TypeError, "takes variables"),
        (lambda: hvd.alltoall(tf.ones(SIZE), [1.0] * SIZE), ValueError, "integers"),
        (lambda: hvd.allreduce(tf.ones(1), process_set=3), ValueError, "ProcessSet"),
        (lambda: hvd.broadcast_object(1, session=object()), ValueError, "no sessions"),
        (lambda: hvd.broadcast_global_variables(0), RuntimeError, "broadcast_variables"),
        (lambda: hvd.BroadcastGlobalVariablesHook(0), RuntimeError, "broadcast_variables"),
        (
            lambda: hvd.allreduce(
                tf.IndexedSlices(tf.ones((1, 1)), tf.constant([0]), tf.constant([2, 1])), op=hvd.Max
            ),
            ValueError,
            "op=Average and op=Sum",
        ),
    ],
)
def test_wrong_arguments_are_refused(call: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_a_name_is_used_once_at_a_time() -> None:
    @tf.function
    def step(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return hvd.allreduce(value, name="twice"), hvd.allreduce(value + 1.0, name="twice")

    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError), match="twice"):
        step(tf.ones(1))
