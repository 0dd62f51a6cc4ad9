#include "collectives/ring.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <numeric>

#include "support/calls.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

/// Small integers, so that sums are exact in every type.
double value_at(int rank, std::size_t index) {
  return static_cast<double>((static_cast<std::size_t>(rank) * 13 + index * 7) % 9) - 4;
}

std::vector<double> reduced_at(DType dtype, ReduceOp op, int size, std::size_t count) {
  std::vector<double> expected;
  std::vector<double> contributions(static_cast<std::size_t>(size));
  for (std::size_t index = 0; index < count; ++index) {
    for (int rank = 0; rank < size; ++rank)
      contributions[static_cast<std::size_t>(rank)] = stored(dtype, value_at(rank, index));
    expected.push_back(reduced(dtype, op, contributions));
  }
  return expected;
}

Tensor tensor_of(DType dtype, int rank, std::size_t count) {
  return {
      dtype, {static_cast<std::int64_t>(count)}, [rank](std::size_t index) { return value_at(rank, index); }};
}

std::span<std::byte> bytes_of(Tensor& tensor) {
  return {tensor.ref().data, tensor.bytes().size()};
}

/// Both halves, on chunks of equal lengths.
void allreduce_in_halves(const Group& group, std::span<std::byte> data, DType dtype, ReduceOp op,
                         Buffer& scratch) {
  const std::vector<std::size_t> bounds = chunk_bounds(group, data.size() / size_of(dtype), size_of(dtype));
  ring_reduce_scatter(group, data, bounds, dtype, op, scratch);
  ring_allgather(group, data, bounds);
}

/// Compares the chunk of this rank with the reference.
void expect_own_chunk(const Group& group, std::span<const std::size_t> bounds, const Tensor& tensor) {
  const std::size_t element = size_of(tensor.dtype());
  const std::vector<double> expected =
      reduced_at(tensor.dtype(), ReduceOp::kSum, group.size(), tensor.count());
  const std::vector<double> got = tensor.values();
  const auto own = static_cast<std::size_t>(group.rank());
  for (std::size_t at = bounds[own] / element; at < bounds[own + 1] / element; ++at)
    ASSERT_EQ(got[at], expected[at]) << "element " << at << " of rank " << own;
}

class Ring : public ::testing::TestWithParam<int> {};

TEST_P(Ring, allreduce_equals_the_serial_reference_at_every_length) {
  run_groups(GetParam(), [](const Group& group) {
    Buffer scratch;
    for (const DType dtype :
         {DType::kFloat32, DType::kFloat64, DType::kInt16, DType::kInt64, DType::kUInt8}) {
      const std::size_t large = dtype == DType::kFloat32 ? 100003 : 2003;
      for (const std::size_t count : critical_lengths(group.size(), large)) {
        Tensor tensor = tensor_of(dtype, group.rank(), count);
        allreduce_in_halves(group, bytes_of(tensor), dtype, ReduceOp::kSum, scratch);
        EXPECT_EQ(tensor.values(), reduced_at(dtype, ReduceOp::kSum, group.size(), count))
            << name(dtype) << " " << count;
      }
    }
  });
}

TEST_P(Ring, allreduce_works_for_every_op) {
  run_groups(GetParam(), [](const Group& group) {
    Buffer scratch;
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      Tensor tensor = tensor_of(DType::kFloat64, group.rank(), 50);
      allreduce_in_halves(group, bytes_of(tensor), DType::kFloat64, op, scratch);
      EXPECT_EQ(tensor.values(), reduced_at(DType::kFloat64, op, group.size(), 50)) << name(op);
    }
  });
}

TEST_P(Ring, allreduce_does_not_depend_on_the_piece_size) {
  for (const std::uint64_t piece_bytes : {1, 3, 8, 1000}) {
    run_groups(GetParam(),
               [](const Group& group) {
                 Buffer scratch;
                 Tensor tensor = tensor_of(DType::kFloat32, group.rank(), 501);
                 allreduce_in_halves(group, bytes_of(tensor), DType::kFloat32, ReduceOp::kSum, scratch);
                 EXPECT_EQ(tensor.values(), reduced_at(DType::kFloat32, ReduceOp::kSum, group.size(), 501));
               },
               {.settings = {.piece_bytes = piece_bytes}});
  }
}

TEST_P(Ring, reduce_scatter_leaves_each_rank_its_own_chunk_complete) {
  run_groups(GetParam(), [&](const Group& group) {
    Buffer scratch;
    Tensor tensor = tensor_of(DType::kInt32, group.rank(), 1000);
    const std::vector<std::size_t> bounds = chunk_bounds(group, 1000, sizeof(std::int32_t));
    ring_reduce_scatter(group, bytes_of(tensor), bounds, DType::kInt32, ReduceOp::kSum, scratch);
    expect_own_chunk(group, bounds, tensor);
  });
}

TEST_P(Ring, reduce_scatter_takes_chunks_of_any_lengths) {
  run_groups(GetParam(), [&](const Group& group) {
    Buffer scratch;
    for (const int salt : {0, 1, 2, 3}) {
      std::vector<std::size_t> bounds{0};
      for (int rank = 0; rank < group.size(); ++rank)
        bounds.push_back(bounds.back() + static_cast<std::size_t>((rank + salt) * rank % 4 * 70) * 8);
      Tensor tensor = tensor_of(DType::kFloat64, group.rank(), bounds.back() / 8);
      ring_reduce_scatter(group, bytes_of(tensor), bounds, DType::kFloat64, ReduceOp::kSum, scratch);
      expect_own_chunk(group, bounds, tensor);
    }
  });
}

TEST(Ring, reduce_scatter_of_one_chunk_that_all_others_lack_works) {
  run_groups(3, [&](const Group& group) {
    Buffer scratch;
    // Longer than several segments, so that many are in flight to the one owner.
    constexpr std::size_t kCount = 300'001;
    Tensor tensor = tensor_of(DType::kFloat32, group.rank(), kCount);
    const std::vector<std::size_t> bounds{0, 0, kCount * 4, kCount * 4};
    ring_reduce_scatter(group, bytes_of(tensor), bounds, DType::kFloat32, ReduceOp::kSum, scratch);
    expect_own_chunk(group, bounds, tensor);
  });
}

TEST_P(Ring, allgather_takes_blocks_of_any_lengths) {
  run_groups(GetParam(), [](const Group& group) {
    std::vector<std::size_t> bounds{0};
    for (int rank = 0; rank < group.size(); ++rank)
      bounds.push_back(bounds.back() + static_cast<std::size_t>(rank * rank % 5 * 3));
    Bytes data(bounds.back(), std::byte{0xff});
    const auto own = static_cast<std::size_t>(group.rank());
    std::fill(data.begin() + static_cast<std::ptrdiff_t>(bounds[own]),
              data.begin() + static_cast<std::ptrdiff_t>(bounds[own + 1]), static_cast<std::byte>(own));
    ring_allgather(group, data, bounds);
    for (std::size_t rank = 0; rank + 1 < bounds.size(); ++rank) {
      for (std::size_t at = bounds[rank]; at < bounds[rank + 1]; ++at)
        ASSERT_EQ(data[at], static_cast<std::byte>(rank));
    }
  });
}

TEST_P(Ring, sums_that_round_are_bit_equal_on_all_ranks) {
  std::mutex mutex;
  std::vector<Bytes> results;
  run_groups(GetParam(), [&](const Group& group) {
    Buffer scratch;
    Tensor tensor(DType::kFloat32, {5000}, [&](std::size_t index) {
      return std::sin(static_cast<double>(index) + 1000.0 * group.rank());
    });
    allreduce_in_halves(group, bytes_of(tensor), DType::kFloat32, ReduceOp::kSum, scratch);
    const std::lock_guard lock(mutex);
    results.push_back(tensor.bytes());
  });
  for (const Bytes& result : results) EXPECT_TRUE(result == results.front());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Ring, ::testing::ValuesIn(kRankCounts), ::testing::PrintToStringParamName());

TEST(Ring, chunks_longer_than_a_segment_travel_in_several) {
  run_groups(3, [](const Group& group) {
    Buffer scratch;
    constexpr std::size_t kCount = 400'003;
    Tensor tensor = tensor_of(DType::kFloat64, group.rank(), kCount);
    allreduce_in_halves(group, bytes_of(tensor), DType::kFloat64, ReduceOp::kSum, scratch);
    EXPECT_EQ(tensor.values(), reduced_at(DType::kFloat64, ReduceOp::kSum, group.size(), kCount));
  });
}

}  // namespace
}  // namespace hora::testing
