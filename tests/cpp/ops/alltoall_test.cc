#include <gmock/gmock.h>

#include "support/calls.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/sentence.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;

using Splits = std::vector<std::vector<std::int64_t>>;

/// Rows from each rank to each other.
template <typename Rows>
Splits splits_of(int ranks, Rows rows) {
  Splits splits;
  for (int from = 0; from < ranks; ++from) {
    std::vector<std::int64_t>& row = splits.emplace_back();
    for (int to = 0; to < ranks; ++to) row.push_back(rows(from, to));
  }
  return splits;
}

Splits ragged(int ranks) {
  return splits_of(ranks, [](int from, int to) { return (from * 3 + to * 5 + from * to) % 4; });
}

/// Even, ragged, nothing at all, a rank that sends or receives nothing, one that gets all, a ring.
std::vector<Splits> split_patterns(int ranks) {
  const int last = ranks - 1;
  return {splits_of(ranks, [](int, int) { return 2; }),
          ragged(ranks),
          splits_of(ranks, [](int, int) { return 0; }),
          splits_of(ranks, [last](int from, int) { return from == last ? 0 : 3; }),
          splits_of(ranks, [last](int, int to) { return to == last ? 0 : 3; }),
          splits_of(ranks, [](int from, int to) { return to == 0 ? from + 1 : 0; }),
          splits_of(ranks, [ranks](int from, int to) { return to == (from + 1) % ranks ? 2 : 0; }),
          splits_of(ranks, [](int from, int to) { return from == to ? 5 : 0; })};
}

class Alltoall : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Alltoall, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(Alltoall, brings_ragged_rows_to_their_ranks_for_every_dtype) {
  run_ranks(GetParam(), [](Session& session) {
    Grid grid(session);
    for (const DType dtype : kAllDTypes) {
      for (const Splits& splits : split_patterns(session.topology().size())) {
        for (const std::int64_t row_length : {0, 1, 5}) grid.alltoall(dtype, splits, row_length);
      }
    }
    grid.finish();
  });
}

TEST_P(Alltoall, of_large_tensors_is_right) {
  run_ranks(GetParam(), [](Session& session) {
    Grid grid(session);
    grid.alltoall(DType::kFloat64, ragged(session.topology().size()), 4001);
    grid.finish();
  });
}

TEST_P(Alltoall, in_tiny_pieces_is_right) {
  run_ranks(GetParam(),
            [](Session& session) {
              Grid grid(session);
              grid.alltoall(DType::kInt16, ragged(session.topology().size()), 11);
              grid.finish();
            },
            {.settings = {.piece_bytes = 3}});
}

TEST_P(Alltoall, splits_may_change_from_call_to_call_under_one_name) {
  run_ranks(GetParam(), [](Session& session) {
    for (int round = 0; round < 3; ++round) {
      for (const Splits& splits : split_patterns(session.topology().size())) {
        Grid grid(session);
        grid.alltoall(DType::kFloat32, splits, 3);
        grid.finish();
      }
    }
  });
}

TEST_P(Alltoall, keeps_the_shape_of_rows) {
  run_ranks(GetParam(), [](Session& session) {
    const int size = session.topology().size();
    std::vector<float> values(static_cast<std::size_t>(size * 6), 1.0f);
    const std::vector<std::int64_t> ones(static_cast<std::size_t>(size), 1);
    const HandlePtr handle = run(session, alltoall("x", ref(values, {size, 2, 3}), ones));
    EXPECT_EQ(handle->outputs().front().shape, (Shape{size, 2, 3}));
  });
}

TEST(AlltoallArguments, wrong_splits_are_refused_and_the_other_ranks_hear_why) {
  struct Wrong {
    std::vector<std::int64_t> splits;
    std::string error;
  };
  const std::vector<Wrong> all_wrong{{{1, 3}, "splits has 2 entries for 3 ranks"},
                                     {{4}, "splits has 1 entries for 3 ranks"},
                                     {{}, "splits has 0 entries for 3 ranks"},
                                     {{2, -1, 3}, "splits [2,-1,3] has a negative entry"},
                                     {{1, 1, 1}, "splits [1,1,1] add up to 3, but the tensor has 4 rows"},
                                     {{4, 4, 4}, "splits [4,4,4] add up to 12, but the tensor has 4 rows"}};
  run_ranks(3, [&](Session& session) {
    std::vector<float> values(4);
    for (const Wrong& wrong : all_wrong) {
      if (session.topology().rank() == 1) {
        const Refusal refusal = refusal_of(session, alltoall("x", ref(values), wrong.splits));
        EXPECT_EQ(refusal.kind, ErrorKind::kInvalidArgument);
        EXPECT_EQ(refusal.text, "alltoall 'x': " + wrong.error);
      } else {
        EXPECT_EQ(error_of(session, alltoall("x", ref(values), {2, 1, 1})),
                  "alltoall 'x': rank 1 refused the call (" + wrong.error + ")");
      }
    }
    EXPECT_EQ(error_of(session, alltoall("x", ref(values), {2, 1, 1})), "");
  });
}

TEST(AlltoallArguments, rows_of_different_lengths_are_an_error_on_all_ranks) {
  run_ranks(3, [](Session& session) {
    std::vector<float> values(12);
    const std::int64_t columns = session.topology().rank() == 2 ? 4 : 2;
    const std::int64_t each = 12 / columns / 3;
    EXPECT_EQ(error_of(session, alltoall("x", ref(values, {12 / columns, columns}), {each, each, each})),
              shapes_differ("alltoall 'x'", {{"2", "[*,4]"}, {"0,1", "[*,2]"}}));
  });
}

TEST(AlltoallArguments, a_scalar_is_refused) {
  run_ranks(1, [](Session& session) {
    std::vector<float> values(1);
    EXPECT_THAT(refusal_of(session, alltoall("x", ref(values, {}), {1})).text,
                HasSubstr("a scalar has no first dimension"));
  });
}

}  // namespace
}  // namespace hora::testing
