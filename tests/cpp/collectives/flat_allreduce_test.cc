// Allreduce of ranks that share no memory: in a ring, and by recursive doubling.

#include <gtest/gtest.h>

#include <thread>

#include "collectives/recursive_doubling.h"
#include "collectives/reduce.h"
#include "collectives/ring_allreduce.h"
#include "support/calls.h"
#include "support/grid.h"
#include "support/reference.h"
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
      contributions[static_cast<std::size_t>(rank)] = value_at(rank, index);
    expected.push_back(reduced(dtype, op, contributions));
  }
  return expected;
}

Tensor tensor_of(DType dtype, int rank, std::size_t count) {
  return {
      dtype, {static_cast<std::int64_t>(count)}, [rank](std::size_t index) { return value_at(rank, index); }};
}

using Chunks = std::vector<std::vector<RingAllreduce::Segment>>;

/// Runs a ring whose sums come bit by bit, and whose results are twice the sums if `finish` says so.
std::vector<double> ring(const Group& group, Tensor tensor, const Chunks& chunks, ReduceOp op, bool doubles) {
  Buffer scratch;
  const DType dtype = tensor.dtype();
  std::byte* const data = tensor.ref().data;
  RingAllreduce ring(group, chunks, {data, dtype, data, size_of(dtype)}, op, scratch,
                     [&](RingAllreduce::Segment segment) {
                       std::byte* const sums = data + segment.first * size_of(dtype);
                       if (doubles) reduce_into(sums, sums, segment.count, dtype, ReduceOp::kSum);
                     });
  for (std::size_t available = 0; !ring.is_over(); available = std::min(available + 1, ring.segments())) {
    ring.make_available(available);
    ring.advance();
    group.pump();
  }
  EXPECT_EQ(ring.finished(), ring.segments());
  return tensor.values();
}

class FlatAllreduce : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, FlatAllreduce, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(FlatAllreduce, in_a_ring_equals_the_serial_reference_at_every_length) {
  run_groups(GetParam(), [](const Group& group) {
    for (const DType dtype : {DType::kFloat32, DType::kInt16, DType::kFloat64}) {
      for (const std::size_t count : critical_lengths(group.size(), 200'003)) {
        const Chunks chunks = ring_segments(count, group.size(), size_of(dtype));
        EXPECT_EQ(ring(group, tensor_of(dtype, group.rank(), count), chunks, ReduceOp::kSum, false),
                  reduced_at(dtype, ReduceOp::kSum, group.size(), count))
            << name(dtype) << " " << count;
      }
    }
  });
}

TEST_P(FlatAllreduce, in_a_ring_takes_chunks_of_any_segments_and_finishes_each_once) {
  run_groups(GetParam(), [](const Group& group) {
    for (const int salt : {0, 1, 2, 3}) {
      Chunks chunks(static_cast<std::size_t>(group.size()));
      std::size_t count = 0;
      for (int chunk = 0; chunk < group.size(); ++chunk) {
        for (int segment = 0; segment < (chunk + salt) * 5 % 7; ++segment) {
          const auto length = static_cast<std::size_t>((segment * 3 + salt) % 4 * 11);
          chunks[static_cast<std::size_t>(chunk)].push_back({count, length});
          count += length;
        }
      }
      std::vector<double> expected = reduced_at(DType::kFloat64, ReduceOp::kSum, group.size(), count);
      for (double& value : expected) value *= 2;
      EXPECT_EQ(ring(group, tensor_of(DType::kFloat64, group.rank(), count), chunks, ReduceOp::kSum, true),
                expected);
    }
  });
}

TEST_P(FlatAllreduce, in_a_ring_takes_one_long_chunk_beside_empty_ones) {
  run_groups(GetParam(), [](const Group& group) {
    for (int longest = 0; longest < group.size(); ++longest) {
      Chunks chunks(static_cast<std::size_t>(group.size()));
      std::size_t count = 0;
      for (; count < 100; ++count) chunks[static_cast<std::size_t>(longest)].push_back({count, 1});
      EXPECT_EQ(ring(group, tensor_of(DType::kInt32, group.rank(), count), chunks, ReduceOp::kSum, false),
                reduced_at(DType::kInt32, ReduceOp::kSum, group.size(), count));
    }
  });
}

TEST_P(FlatAllreduce, by_doubling_equals_the_serial_reference) {
  run_groups(GetParam(), [](const Group& group) {
    Buffer scratch;
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      for (const std::size_t count : {0, 1, 50}) {
        Tensor tensor = tensor_of(DType::kFloat64, group.rank(), count);
        recursive_doubling_allreduce(group, {tensor.ref().data, tensor.bytes().size()}, DType::kFloat64, op,
                                     scratch);
        EXPECT_EQ(tensor.values(), reduced_at(DType::kFloat64, op, group.size(), count)) << name(op);
      }
    }
  });
}

TEST_P(FlatAllreduce, by_doubling_gives_the_same_bits_everywhere) {
  run_ranks(GetParam(),
            [](Session& session) {
              Tensor tensor(DType::kFloat32, {100}, [&](std::size_t index) {
                return 1.0 / (3 + static_cast<double>(index) * 7 + session.topology().rank() * 1e3);
              });
              run(session, allreduce("x", tensor.ref()));
              expect_same_on_all_ranks(session, tensor.bytes());
            },
            {.settings = {.route = {.doubling = true}}});
}

}  // namespace
}  // namespace hora::testing
