#include "collectives/ring.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
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

class Ring : public ::testing::TestWithParam<int> {};

TEST_P(Ring, allreduce_equals_the_serial_reference_at_every_length) {
  run_groups(GetParam(), [](const Group& group) {
    Buffer scratch;
    for (const DType dtype :
         {DType::kFloat32, DType::kFloat64, DType::kInt16, DType::kInt64, DType::kUInt8}) {
      const std::size_t large = dtype == DType::kFloat32 ? 100003 : 2003;
      for (const std::size_t count : critical_lengths(group.size(), large)) {
        Tensor tensor = tensor_of(dtype, group.rank(), count);
        ring_allreduce(group, bytes_of(tensor), dtype, ReduceOp::kSum, scratch);
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
      ring_allreduce(group, bytes_of(tensor), DType::kFloat64, op, scratch);
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
                 ring_allreduce(group, bytes_of(tensor), DType::kFloat32, ReduceOp::kSum, scratch);
                 EXPECT_EQ(tensor.values(), reduced_at(DType::kFloat32, ReduceOp::kSum, group.size(), 501));
               },
               {.settings = {.piece_bytes = piece_bytes}});
  }
}

TEST_P(Ring, reduce_scatter_leaves_each_rank_one_complete_chunk_and_no_two_the_same) {
  std::mutex mutex;
  std::map<int, int> owner;
  run_groups(GetParam(), [&](const Group& group) {
    Buffer scratch;
    Tensor tensor = tensor_of(DType::kInt32, group.rank(), 1000);
    const int own = ring_reduce_scatter(group, bytes_of(tensor), DType::kInt32, ReduceOp::kSum, scratch);
    const std::vector<std::size_t> bounds = chunk_bounds(group, 1000, sizeof(std::int32_t));
    const std::vector<double> expected = reduced_at(DType::kInt32, ReduceOp::kSum, group.size(), 1000);
    const std::vector<double> got = tensor.values();
    for (std::size_t at = bounds[static_cast<std::size_t>(own)] / 4;
         at < bounds[static_cast<std::size_t>(own) + 1] / 4; ++at)
      ASSERT_EQ(got[at], expected[at]);
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(owner.emplace(own, group.rank()).second);
  });
  EXPECT_EQ(owner.size(), static_cast<std::size_t>(GetParam()));
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
    ring_allgather(group, data, bounds, group.rank());
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
    ring_allreduce(group, bytes_of(tensor), DType::kFloat32, ReduceOp::kSum, scratch);
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
    ring_allreduce(group, bytes_of(tensor), DType::kFloat64, ReduceOp::kSum, scratch);
    EXPECT_EQ(tensor.values(), reduced_at(DType::kFloat64, ReduceOp::kSum, group.size(), kCount));
  });
}

}  // namespace
}  // namespace hora::testing
