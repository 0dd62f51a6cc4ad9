"""What `hora.tensorflow` raises, where, and that the job goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf
from disagreement import place_in, table_of
from front_ends import FRONT_ENDS
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
        (lambda: hvd.broadcast_([], 0), ValueError, "at least one variable"),
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


def assert_places(error: Exception, first: str, others: str) -> None:
    """Fail unless an error tells where rank 0 and the others made the call."""
    text = FRONT_ENDS[0].text(error)
    table = table_of(text[text.index("ranks differ") :])
    first_row, row = table.pop("0"), *table.values()
    assert first_row["called at"].endswith(f"/{place_in(Path(__file__), first)}"), error
    assert row["called at"].endswith(f"/{place_in(Path(__file__), others)}"), error


@in_both_modes
def test_ranks_that_differ_are_told_where_each_made_the_call(mode: Mode) -> None:
    def step(value: tf.Tensor) -> tf.Tensor:
        if RANK == 0:
            return hvd.allreduce(value, name="x")  # of rank 0
        return hvd.allreduce(value, name="x")  # of the others

    run = mode(step)
    for _ in range(2):
        assert run(tf.ones(2)).shape == [2]
    with pytest.raises(tf.errors.FailedPreconditionError) as caught:
        run(tf.ones(1 + RANK))
    assert_places(caught.value, "of rank 0", "of the others")


@in_both_modes
def test_a_call_of_a_backward_pass_is_made_where_that_begins(mode: Mode) -> None:
    def step(value: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(value)
            loss = hvd.allreduce(value, name="loss")
        return tape.gradient(loss, value, output_gradients=tf.ones(1 + RANK))  # backward

    with pytest.raises(tf.errors.FailedPreconditionError) as caught:
        mode(step)(tf.ones(1))
    assert_places(caught.value, "backward", "backward")
