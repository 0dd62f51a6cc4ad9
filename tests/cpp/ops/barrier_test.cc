#include <gtest/gtest.h>

#include <atomic>

#include "support/calls.h"
#include "support/run_ranks.h"

namespace hora::testing {
namespace {

class Barrier : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Barrier, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(Barrier, no_rank_gets_through_before_all_have_come) {
  std::atomic<int> arrived{0};
  run_ranks(GetParam(), [&](Session& session) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      run(session, barrier());
      ASSERT_GE(arrived.load(), round * session.topology().size());
      run(session, barrier("named"));
    }
  });
}

}  // namespace
}  // namespace hora::testing
