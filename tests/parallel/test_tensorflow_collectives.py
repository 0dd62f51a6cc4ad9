"""Every collective of `hora.tensorflow` on every dtype, in eager mode and in graphs."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf
from reference import REDUCTIONS, assert_reduced, rank_values
from tensorflow_ranks import RANK, SIZE, Mode, array, in_both_modes, of_all_dtypes, same_everywhere, tensor

import hora.tensorflow as hvd

RANKS = (2, 3)
LAUNCH = "tensorflow"

SHAPES = [(), (0,), (1,), (5, 3), (0, 4)]


def all_values(dtype: str, shape: tuple[int, ...]) -> list[numpy.ndarray]:
    return [rank_values(dtype, shape, rank) for rank in range(SIZE)]


@in_both_modes
@of_all_dtypes
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_allreduce_reduces_every_dtype_and_shape(mode: Mode, dtype: str, reduction: str) -> None:
    if dtype == "bool" and reduction == "Average":
        return
    op = getattr(hvd, reduction)
    inputs = [all_values(dtype, shape) for shape in SHAPES]
    reduce = mode(lambda *tensors: hvd.grouped_allreduce(tensors, op=op))
    results = reduce(*(tensor(each[RANK], dtype) for each in inputs))
    for result, each in zip(results, inputs, strict=True):
        assert result.dtype.name == dtype
        assert_reduced(array(result), reduction, each, dtype)
        assert same_everywhere(array(result))


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
@of_all_dtypes
def test_allgather_concatenates_ragged_rows(mode: Mode, dtype: str) -> None:
    inputs = [rank_values(dtype, (2 * rank, 3), rank) for rank in range(SIZE)]
    gather = mode(lambda first, second: hvd.grouped_allgather([first, second]))
    ragged, equal = gather(tensor(inputs[RANK], dtype), tensor(rank_values(dtype, (2,), RANK), dtype))
    numpy.testing.assert_array_equal(array(ragged), numpy.concatenate(inputs))
    numpy.testing.assert_array_equal(array(equal), numpy.concatenate(all_values(dtype, (2,))))
    assert ragged.dtype.name == dtype


@in_both_modes
@of_all_dtypes
def test_broadcast_copies_the_roots_tensor(mode: Mode, dtype: str) -> None:
    root = SIZE - 1
    for shape in SHAPES:
        copy = mode(lambda value: hvd.broadcast(value, root))
        result = copy(tensor(rank_values(dtype, shape, RANK), dtype))
        numpy.testing.assert_array_equal(array(result), rank_values(dtype, shape, root))


@in_both_modes
@of_all_dtypes
def test_alltoall_exchanges_rows_and_says_how_many_came(mode: Mode, dtype: str) -> None:
    def splits_of(rank: int) -> list[int]:
        return [(rank + peer) % 3 for peer in range(SIZE)]

    def part(rank: int, peer: int) -> numpy.ndarray:
        splits = splits_of(rank)
        values = rank_values(dtype, (sum(splits), 2), rank)
        return values[sum(splits[:peer]) : sum(splits[: peer + 1])]

    exchange = mode(lambda value, splits: hvd.alltoall(value, splits))
    own = tensor(rank_values(dtype, (sum(splits_of(RANK)), 2), RANK), dtype)
    result, received = exchange(own, tf.constant(splits_of(RANK)))
    numpy.testing.assert_array_equal(
        array(result), numpy.concatenate([part(rank, RANK) for rank in range(SIZE)])
    )
    assert received.dtype == tf.int32
    assert received.numpy().tolist() == [splits_of(rank)[RANK] for rank in range(SIZE)]


@in_both_modes
def test_alltoall_shares_rows_equally_without_splits(mode: Mode) -> None:
    exchange = mode(lambda value: hvd.alltoall(value))
    result = exchange(tf.fill([2 * SIZE], RANK))
    assert result.numpy().tolist() == [rank for rank in range(SIZE) for _ in range(2)]


@in_both_modes
@of_all_dtypes
@pytest.mark.parametrize("reduction", ["Average", "Sum"])
def test_reducescatter_gives_the_first_ranks_a_row_more(mode: Mode, dtype: str, reduction: str) -> None:
    if dtype == "bool" and reduction == "Average":
        return
    rows = 2 * SIZE + 1
    inputs = all_values(dtype, (rows, 2))
    scatter = mode(lambda value: hvd.reducescatter(value, op=getattr(hvd, reduction)))
    result = array(scatter(tensor(inputs[RANK], dtype)))
    first = RANK * 2 + min(RANK, 1)
    last = first + 2 + (RANK < 1)
    assert_reduced(result, reduction, [each[first:last] for each in inputs], dtype)


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


@in_both_modes
def test_only_members_of_a_process_set_take_part(mode: Mode) -> None:
    last = hvd.add_process_set([SIZE - 1])
    included = mode(lambda: hvd.process_set_included_op(last.process_set_id))()
    assert int(included) == last.included() == (RANK == SIZE - 1)
    if last.included():
        result = mode(lambda value: hvd.allreduce(value, op=hvd.Sum, process_set=last))(tf.constant(RANK))
        assert int(result) == RANK
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a member"):
            mode(lambda value: hvd.allreduce(value, op=hvd.Sum, process_set=last))(tf.constant(RANK))
    hvd.remove_process_set(last)


def test_ranks_that_have_joined_contribute_nothing() -> None:
    if RANK == 0:
        assert float(hvd.allreduce(tf.constant(6.0))) == 6.0
        slices = hvd.allreduce(tf.IndexedSlices(tf.ones((1, 2)), tf.constant([3]), tf.constant([4, 2])))
        assert slices.values.numpy().tolist() == [[1, 1]]
    last = hvd.join()
    assert hvd.allgather(tf.reshape(last, [1])).numpy().tolist() == [int(last)] * SIZE


@in_both_modes
def test_integer_average_is_truncated_toward_zero(mode: Mode) -> None:
    for dtype in (tf.int32, tf.int64):
        for sign in (1, -1):
            value = tf.constant(sign * (3 + min(RANK, 1)), dtype)
            total = sign * (3 + 4 * (SIZE - 1))
            assert int(mode(hvd.allreduce)(value)) == int(total / SIZE)
