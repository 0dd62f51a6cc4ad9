#include <gmock/gmock.h>

#include "support/calls.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/sentence.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;

/// Ways to spread rows over ranks.
std::vector<std::vector<std::int64_t>> row_patterns(int ranks) {
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<std::int64_t> growing(size);
  std::vector<std::int64_t> falling(size);
  std::vector<std::int64_t> only_last(size, 0);
  for (std::size_t rank = 0; rank < size; ++rank) {
    growing[rank] = static_cast<std::int64_t>(rank);
    falling[rank] = static_cast<std::int64_t>((size - rank) * 3);
  }
  only_last.back() = 4;
  return {std::vector<std::int64_t>(size, 2), growing, falling, only_last,
          std::vector<std::int64_t>(size, 0)};
}

class Allgather : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Allgather, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(Allgather, puts_ragged_rows_one_after_the_other_for_every_dtype) {
  run_ranks(GetParam(), [](Session& session) {
    Grid grid(session);
    for (const DType dtype : kAllDTypes) {
      for (const auto& rows : row_patterns(session.topology().size())) {
        for (const std::int64_t row_length : {0, 1, 5}) grid.allgather(dtype, rows, row_length);
      }
    }
    grid.finish();
  });
}

TEST_P(Allgather, of_large_tensors_is_right) {
  run_ranks(GetParam(), [](Session& session) {
    check_allgather(session, DType::kFloat32, row_patterns(session.topology().size())[2], 2003);
  });
}

TEST_P(Allgather, in_tiny_pieces_is_right) {
  run_ranks(GetParam(),
            [](Session& session) {
              check_allgather(session, DType::kInt16, row_patterns(session.topology().size())[1], 11);
            },
            {.settings = {.piece_bytes = 3}});
}

TEST_P(Allgather, the_numbers_of_rows_may_change_from_call_to_call_under_one_name) {
  run_ranks(GetParam(), [](Session& session) {
    for (int round = 0; round < 3; ++round) {
      for (const auto& rows : row_patterns(session.topology().size()))
        check_allgather(session, DType::kFloat32, rows, 3);
    }
  });
}

TEST_P(Allgather, several_at_once_are_right) {
  run_ranks(GetParam(), [](Session& session) {
    const auto rank = session.topology().rank();
    std::vector<std::vector<std::int32_t>> inputs;
    for (int number = 0; number < 10; ++number)
      inputs.emplace_back(static_cast<std::size_t>(rank + number), rank * 100 + number);
    std::vector<HandlePtr> handles;
    for (int number = 0; number < 10; ++number)
      handles.push_back(session.submit(
          allgather("t" + std::to_string(number), ref(inputs[static_cast<std::size_t>(number)]))));
    for (int number = 0; number < 10; ++number) {
      const HandlePtr& handle = handles[static_cast<std::size_t>(number)];
      wait(session, handle);
      std::vector<double> expected;
      for (int from = 0; from < session.topology().size(); ++from)
        expected.insert(expected.end(), static_cast<std::size_t>(from + number), from * 100 + number);
      EXPECT_EQ(
          values_of(DType::kInt32, {handle->outputs().front().data.get(), handle->outputs().front().bytes()}),
          expected);
    }
  });
}

TEST(AllgatherArguments, rows_of_different_lengths_are_an_error_on_all_ranks) {
  run_ranks(3, [](Session& session) {
    std::vector<float> values(12);
    const std::int64_t columns = session.topology().rank() == 2 ? 3 : 4;
    EXPECT_EQ(error_of(session, allgather("x", ref(values, {12 / columns, columns}))),
              shapes_differ("allgather 'x'", {{"2", "[*,3]"}, {"0,1", "[*,4]"}}));
  });
}

TEST(AllgatherArguments, a_scalar_is_refused_and_the_other_ranks_hear_why) {
  run_ranks(3, [](Session& session) {
    std::vector<float> values(1);
    const bool is_wrong = session.topology().rank() == 1;
    const std::string error = error_of(session, allgather("x", ref(values, is_wrong ? Shape{} : Shape{1})));
    EXPECT_THAT(error, HasSubstr("a scalar has no first dimension"));
    if (!is_wrong) {
      EXPECT_THAT(error, HasSubstr("rank 1 refused the call"));
    }
    run(session, barrier("none leaves before all have heard"));
  });
}

}  // namespace
}  // namespace hora::testing
