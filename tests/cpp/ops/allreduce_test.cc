#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "support/calls.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using GridPoint = std::tuple<int, DType>;

/// Each tensor travels alone; engine/fusion_test.cc is about those that do not.
const RunOptions kUnfused{.settings = {.fusion_threshold = 0}};

class AllreduceGrid : public ::testing::TestWithParam<GridPoint> {};

std::string grid_name(const ::testing::TestParamInfo<GridPoint>& info) {
  return fmt::format("{}_ranks_{}", std::get<0>(info.param), name(std::get<1>(info.param)));
}

TEST_P(AllreduceGrid, equals_the_serial_reference) {
  const auto [size, dtype] = GetParam();
  const auto body = [dtype = dtype](Session& session) {
    Grid grid(session);
    for (const ReduceOp op : ops_of(dtype)) {
      for (const bool in_place : {false, true}) {
        for (const std::size_t length : critical_lengths(session.topology().size(), 3001))
          grid.allreduce({dtype, op, length, in_place});
      }
    }
    grid.finish();
  };
  run_ranks(size, body, kUnfused);
}

TEST_P(AllreduceGrid, scaled_equals_the_serial_reference) {
  const auto [size, dtype] = GetParam();
  if (dtype == DType::kBool) return;
  const auto body = [dtype = dtype](Session& session) {
    Grid grid(session);
    for (const ReduceOp op : ops_of(dtype)) {
      for (const Factors factors : {Factors{0.5, 1}, Factors{1, 3}, Factors{-2, 0.5}}) {
        for (const bool in_place : {false, true}) grid.allreduce({dtype, op, 101, in_place, factors});
      }
    }
    grid.finish();
  };
  run_ranks(size, body, kUnfused);
}

INSTANTIATE_TEST_SUITE_P(All, AllreduceGrid,
                         ::testing::Combine(::testing::ValuesIn(kRankCounts),
                                            ::testing::ValuesIn(kAllDTypes)),
                         grid_name);

class Allreduce : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Allreduce, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(Allreduce, of_large_tensors_equals_the_serial_reference) {
  run_ranks(GetParam(), [](Session& session) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
      check_allreduce(session, {dtype, ReduceOp::kAverage, 70001, true});
  });
}

TEST_P(Allreduce, in_tiny_pieces_equals_the_serial_reference) {
  for (const std::uint64_t piece_bytes : {1, 7, 64}) {
    run_ranks(GetParam(),
              [](Session& session) {
                for (const DType dtype : {DType::kFloat32, DType::kFloat16})
                  check_allreduce(session, {dtype, ReduceOp::kSum, 301, false});
              },
              {.settings = {.piece_bytes = piece_bytes}});
  }
}

TEST_P(Allreduce, of_numbers_that_round_stays_close_to_float64) {
  run_ranks(GetParam(), [](Session& session) {
    const int size = session.topology().size();
    const auto value = [](int rank, std::size_t index) {
      return std::sin(1 + static_cast<double>(index) * 0.7 + rank * 31.0);
    };
    Tensor tensor(DType::kFloat32, {2000},
                  [&](std::size_t index) { return value(session.topology().rank(), index); });
    run(session, allreduce("x", tensor.ref(), ReduceOp::kAverage));
    const std::vector<double> got = tensor.values();
    for (std::size_t index = 0; index < got.size(); ++index) {
      double sum = 0;
      for (int rank = 0; rank < size; ++rank) sum += stored(DType::kFloat32, value(rank, index));
      ASSERT_NEAR(got[index], sum / size, 4e-7);
    }
    expect_same_on_all_ranks(session, tensor.bytes());
  });
}

TEST_P(Allreduce, average_of_halves_never_overflows_when_the_mean_fits) {
  run_ranks(GetParam(), [](Session& session) {
    for (const auto& [dtype, big] :
         {std::pair{DType::kFloat16, 60000.0}, std::pair{DType::kBFloat16, 0x1.fep127}}) {
      Tensor tensor(dtype, {100}, [big = big](std::size_t) { return big; });
      run(session, allreduce("big", tensor.ref(), ReduceOp::kAverage));
      for (const double value : tensor.values())
        ASSERT_TRUE(close_enough(dtype, value, stored(dtype, big))) << value;
    }
  });
}

TEST_P(Allreduce, average_of_tiny_halves_does_not_vanish) {
  run_ranks(GetParam(), [](Session& session) {
    Tensor tensor(DType::kFloat16, {10}, [](std::size_t) { return 6e-8; });
    run(session, allreduce("tiny", tensor.ref(), ReduceOp::kAverage));
    EXPECT_THAT(tensor.values(), Each(0x1p-24));
  });
}

TEST_P(Allreduce, sum_of_halves_is_rounded_once) {
  run_ranks(GetParam(), [](Session& session) {
    // In float16, 2048 + 1 is 2048 again; in float32 the ones add up.
    const bool is_first = session.topology().rank() == 0;
    Tensor tensor(DType::kFloat16, {9}, [&](std::size_t) { return is_first ? 2048.0 : 1.0; });
    run(session, allreduce("x", tensor.ref()));
    const double exact = 2048 + session.topology().size() - 1;
    EXPECT_THAT(tensor.values(), Each(stored(DType::kFloat16, exact)));
  });
}

TEST_P(Allreduce, average_of_integers_is_truncated_toward_zero) {
  run_ranks(GetParam(), [](Session& session) {
    const int rank = session.topology().rank();
    const int size = session.topology().size();
    for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}) {
      // Sums to 1 - size, 1 and -1.
      Tensor tensor(dtype, {3}, [&](std::size_t index) {
        return std::vector<double>{rank == 0 ? 0.0 : -1.0, rank == 0 ? 1.0 : 0.0,
                                   rank == 0 ? -1.0 : 0.0}[index];
      });
      run(session, allreduce("x", tensor.ref(), ReduceOp::kAverage));
      const double one = size == 1 ? 1 : 0;
      EXPECT_THAT(tensor.values(), ElementsAre(0, one, -one)) << name(dtype);
    }
  });
}

TEST_P(Allreduce, sum_of_integers_wraps_around) {
  run_ranks(GetParam(), [](Session& session) {
    const auto size = static_cast<std::uint64_t>(session.topology().size());
    std::vector<std::int64_t> values{std::numeric_limits<std::int64_t>::max()};
    run(session, allreduce("x", ref(values)));
    EXPECT_EQ(values[0], static_cast<std::int64_t>(
                             size * static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
  });
}

TEST_P(Allreduce, nan_of_any_rank_reaches_all_for_every_op) {
  run_ranks(GetParam(), [](Session& session) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      for (const ReduceOp op : ops_of(dtype)) {
        const int last = session.topology().size() - 1;
        Tensor tensor(dtype, {50}, [&](std::size_t index) {
          return index % 2 == 0 && session.topology().rank() == last ? std::nan("")
                                                                     : 1.0 + session.topology().rank();
        });
        run(session, allreduce("x", tensor.ref(), op));
        const std::vector<double> got = tensor.values();
        for (std::size_t index = 0; index < got.size(); ++index)
          ASSERT_EQ(std::isnan(got[index]), index % 2 == 0) << name(op) << " of " << name(dtype);
      }
    }
  });
}

TEST_P(Allreduce, of_a_scalar_works) {
  run_ranks(GetParam(), [](Session& session) {
    std::vector<double> value{2.5};
    run(session, allreduce("x", ref(value, {})));
    EXPECT_EQ(value[0], 2.5 * session.topology().size());
  });
}

TEST(AllreduceArguments, bool_cannot_be_averaged) {
  run_ranks(1, [](Session& session) {
    Tensor tensor(DType::kBool, {2}, [](std::size_t) { return 1; });
    const Refusal refusal = refusal_of(session, allreduce("x", tensor.ref(), ReduceOp::kAverage));
    EXPECT_EQ(refusal.kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(refusal.text,
              "allreduce 'x': op Average is not defined for bool; Sum and Max are logical or, Product and "
              "Min logical and");
  });
}

TEST(AllreduceArguments, bool_cannot_be_scaled) {
  run_ranks(1, [](Session& session) {
    Tensor tensor(DType::kBool, {2}, [](std::size_t) { return 1; });
    for (const bool before : {true, false}) {
      Call call = allreduce("x", tensor.ref());
      (before ? call.prescale : call.postscale) = 0.5;
      EXPECT_EQ(refusal_of(session, call).kind, ErrorKind::kInvalidArgument);
    }
  });
}

TEST(AllreduceArguments, a_scale_factor_that_is_no_number_is_refused) {
  run_ranks(1, [](Session& session) {
    std::vector<float> values{1};
    for (const bool before : {true, false}) {
      Call call = allreduce("x", ref(values));
      (before ? call.prescale : call.postscale) = std::nan("");
      EXPECT_EQ(refusal_of(session, call).kind, ErrorKind::kInvalidArgument);
    }
  });
}

TEST(AllreduceArguments, adasum_of_integers_is_refused) {
  run_ranks(1, [](Session& session) {
    std::vector<std::int32_t> values{1};
    const Refusal refusal = refusal_of(session, allreduce("x", ref(values), ReduceOp::kAdasum));
    EXPECT_EQ(refusal.kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(refusal.text, HasSubstr("Adasum"));
  });
}

}  // namespace
}  // namespace hora::testing
