"""What `hora.tensorflow` has besides the collectives of all front ends, in eager mode and in graphs."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf
from tensorflow_ranks import RANK, SIZE, Mode, in_both_modes

import hora.tensorflow as hvd

RANKS = (2, 3)
LAUNCH = "tensorflow"


@in_both_modes
def test_allreduce_multiplies_by_factors_in_double_precision(mode: Mode) -> None:
    third = 1 / 3
    reduce = mode(
        lambda value: hvd.allreduce(value, op=hvd.Sum, prescale_factor=third, postscale_factor=third)
    )
    result = reduce(tf.constant([float(RANK + 1)], tf.float64))
    expected = sum((rank + 1) * third for rank in range(SIZE)) * third
    assert result.numpy()[0] == pytest.approx(expected, rel=1e-15)


@in_both_modes
def test_indexed_slices_are_merged_and_gathered(mode: Mode) -> None:
    rows = [[], [1, 4, 1], [0]][RANK % 3]

    def reduce(values: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
        slices = tf.IndexedSlices(values, indices, tf.constant([5, 2]))
        dense, sparse = hvd.grouped_allreduce([tf.ones(2), slices])
        return dense, sparse.indices, tf.convert_to_tensor(sparse)

    values = tf.ones((len(rows), 2)) * (RANK + 1)
    dense, indices, result = mode(reduce)(values, tf.constant(rows, tf.int64))
    expected = numpy.zeros((5, 2))
    for rank in range(SIZE):
        for row in [[], [1, 4, 1], [0]][rank % 3]:
            expected[row] += (rank + 1) / SIZE
    numpy.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    assert len(indices) == sum(len({*[[], [1, 4, 1], [0]][rank % 3]}) for rank in range(SIZE))
    assert dense.numpy().tolist() == [1, 1]


@in_both_modes
@pytest.mark.parametrize("compression", ["none", "fp16", "bf16"])
def test_compression_keeps_the_dtype(mode: Mode, compression: str) -> None:
    compressor = getattr(hvd.Compression, compression)
    reduce = mode(lambda value: hvd.allreduce(value, compression=compressor))
    result = reduce(tf.fill([3], float(RANK)))
    assert result.dtype == tf.float32
    numpy.testing.assert_allclose(result.numpy(), numpy.full(3, (SIZE - 1) / 2))


@in_both_modes
def test_graphs_know_numbers_of_the_job_when_they_run(mode: Mode) -> None:
    def numbers() -> list[tf.Tensor]:
        return [hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op()]

    assert [int(each) for each in mode(numbers)()] == [RANK, SIZE, hvd.local_rank(), hvd.local_size()]


def test_ranks_that_have_joined_contribute_no_slices() -> None:
    if RANK == 0:
        slices = hvd.allreduce(tf.IndexedSlices(tf.ones((1, 2)), tf.constant([3]), tf.constant([4, 2])))
        assert slices.values.numpy().tolist() == [[1, 1]]
    last = hvd.join()
    assert hvd.allgather(tf.reshape(last, [1])).numpy().tolist() == [int(last)] * SIZE


@in_both_modes
def test_graphs_know_who_is_in_a_process_set_when_they_run(mode: Mode) -> None:
    last = hvd.add_process_set([SIZE - 1])
    included = mode(lambda: hvd.process_set_included_op(last.process_set_id))()
    assert int(included) == last.included() == (RANK == SIZE - 1)
    hvd.remove_process_set(last)


@in_both_modes
@pytest.mark.parametrize("op", ["allreduce", "allgather", "reducescatter"])
def test_a_group_without_tensors_has_no_results(mode: Mode, op: str) -> None:
    grouped = getattr(hvd, f"grouped_{op}")
    assert list(mode(lambda: grouped([]))()) == []
