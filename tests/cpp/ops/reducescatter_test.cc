#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "engine/counters.h"
#include "support/calls.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/sentence.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::vector<ReduceOp> scatter_ops(DType dtype) {
  if (dtype == DType::kBool) return {ReduceOp::kSum};
  return {ReduceOp::kSum, ReduceOp::kAverage};
}

/// No row, fewer rows than ranks, as many, uneven and many.
std::vector<std::int64_t> row_counts(int ranks) {
  std::vector<std::int64_t> counts;
  for (const std::size_t rows : critical_lengths(ranks, static_cast<std::size_t>(10 * ranks + 3)))
    counts.push_back(static_cast<std::int64_t>(rows));
  return counts;
}

class ReducescatterGrid : public ::testing::TestWithParam<std::tuple<int, DType>> {};

INSTANTIATE_TEST_SUITE_P(All, ReducescatterGrid,
                         ::testing::Combine(::testing::ValuesIn(kRankCounts),
                                            ::testing::ValuesIn(kAllDTypes)),
                         [](const auto& info) {
                           return fmt::format("{}_ranks_{}", std::get<0>(info.param),
                                              name(std::get<1>(info.param)));
                         });

TEST_P(ReducescatterGrid, equals_the_serial_reference_fused_and_not) {
  const auto [size, dtype] = GetParam();
  // Each tensor alone, a few together, and as many together as come.
  for (const std::uint64_t threshold : {0, 300, 1 << 20}) {
    run_ranks(size,
              [dtype = dtype](Session& session) {
                Grid grid(session);
                for (const ReduceOp op : scatter_ops(dtype)) {
                  for (const std::int64_t rows : row_counts(session.topology().size())) {
                    for (const std::int64_t row_length : {0, 1, 7})
                      grid.reducescatter({dtype, op, rows, row_length});
                  }
                }
                grid.finish();
              },
              {.settings = {.fusion_threshold = threshold}});
  }
}

TEST_P(ReducescatterGrid, scaled_equals_the_serial_reference) {
  const auto [size, dtype] = GetParam();
  if (dtype == DType::kBool) return;
  run_ranks(size, [dtype = dtype](Session& session) {
    Grid grid(session);
    for (const ReduceOp op : scatter_ops(dtype)) {
      for (const Factors factors : {Factors{0.5, 1}, Factors{1, 3}, Factors{-2, 0.5}})
        grid.reducescatter({dtype, op, 2 * session.topology().size() + 1, 5, factors});
    }
    grid.finish();
  });
}

class Reducescatter : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Reducescatter, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(Reducescatter, of_large_tensors_equals_the_serial_reference) {
  run_ranks(GetParam(), [](Session& session) {
    Grid grid(session);
    grid.reducescatter({DType::kFloat32, ReduceOp::kAverage, 1003, 301});
    grid.reducescatter({DType::kBFloat16, ReduceOp::kAverage, 1003, 301});
    grid.finish();
  });
}

TEST_P(Reducescatter, in_tiny_pieces_equals_the_serial_reference) {
  run_ranks(GetParam(),
            [](Session& session) {
              Grid grid(session);
              grid.reducescatter({DType::kFloat64, ReduceOp::kSum, 15, 3});
              grid.reducescatter({DType::kFloat16, ReduceOp::kSum, 15, 3});
              grid.finish();
            },
            {.settings = {.piece_bytes = 7}});
}

TEST_P(Reducescatter, average_of_halves_never_overflows_when_the_mean_fits) {
  run_ranks(GetParam(), [](Session& session) {
    const std::int64_t size = session.topology().size();
    Tensor input(DType::kFloat16, {size, 10}, [](std::size_t) { return 60000.0; });
    Tensor output(DType::kFloat16, {1, 10});
    run(session, reducescatter("big", input.ref(), output.ref(), ReduceOp::kAverage));
    for (const double value : output.values())
      ASSERT_TRUE(close_enough(DType::kFloat16, value, stored(DType::kFloat16, 60000))) << value;
  });
}

TEST_P(Reducescatter, sum_of_halves_is_rounded_once) {
  run_ranks(GetParam(), [](Session& session) {
    const std::int64_t size = session.topology().size();
    const bool is_first = session.topology().rank() == 0;
    Tensor input(DType::kFloat16, {size}, [&](std::size_t) { return is_first ? 2048.0 : 1.0; });
    Tensor output(DType::kFloat16, {1});
    run(session, reducescatter("x", input.ref(), output.ref()));
    EXPECT_THAT(output.values(), Each(stored(DType::kFloat16, static_cast<double>(2048 + size - 1))));
  });
}

TEST(ReducescatterFusion, tensors_of_different_rows_share_a_batch) {
  // One rank, because there everything is ready at once.
  run_ranks(1, [](Session& session) {
    std::vector<float> values(100, 2.0f);
    std::vector<std::vector<float>> outputs(20, std::vector<float>(100));
    std::vector<HandlePtr> handles;
    for (std::size_t number = 0; number < outputs.size(); ++number) {
      const auto rows = static_cast<std::int64_t>(number);
      handles.push_back(session.submit(reducescatter("t" + std::to_string(number), ref(values, {rows, 5}),
                                                     ref(outputs[number], {rows, 5}))));
    }
    for (const HandlePtr& handle : handles) wait(session, handle);
    for (std::size_t number = 0; number < outputs.size(); ++number) {
      for (std::size_t at = 0; at < 100; ++at)
        ASSERT_EQ(outputs[number][at], at < 5 * number ? 2.0f : 0.0f) << number << " " << at;
    }
    EXPECT_EQ(session.counters().tensors, 20u);
  });
}

TEST(ReducescatterArguments, what_is_not_defined_is_refused) {
  run_ranks(1, [](Session& session) {
    std::vector<float> values(4);
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct, ReduceOp::kAdasum}) {
      EXPECT_EQ(refusal_of(session, reducescatter("x", ref(values), ref(values), op)).text,
                fmt::format("reducescatter 'x': op must be Sum or Average, not {}", name(op)));
    }
    EXPECT_THAT(refusal_of(session, reducescatter("x", ref(values, {}), ref(values, {}))).text,
                HasSubstr("a scalar has no first dimension"));
    Tensor flags(DType::kBool, {2}, [](std::size_t) { return 1; });
    EXPECT_THAT(refusal_of(session, reducescatter("x", flags.ref(), flags.ref(), ReduceOp::kAverage)).text,
                HasSubstr("Average is not defined for bool"));
  });
}

TEST(ReducescatterArguments, shapes_that_differ_are_an_error_on_all_ranks) {
  run_ranks(3, [](Session& session) {
    std::vector<float> values(12);
    std::vector<float> output(12);
    const std::int64_t rows = session.topology().rank() == 0 ? 3 : 6;
    EXPECT_EQ(error_of(session, reducescatter("x", ref(values, {rows, 2}), ref(output, {rows / 3, 2}))),
              shapes_differ("reducescatter 'x'", {{"0", "[3,2]"}, {"1,2", "[6,2]"}}));
  });
}

}  // namespace
}  // namespace hora::testing
