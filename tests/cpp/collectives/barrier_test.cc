#include "collectives/barrier.h"

#include <gtest/gtest.h>

#include <atomic>

#include "support/run_ranks.h"

namespace hora::testing {
namespace {

class DisseminationBarrier : public ::testing::TestWithParam<int> {};

TEST_P(DisseminationBarrier, no_rank_gets_through_before_all_have_come) {
  std::atomic<int> arrived{0};
  run_groups(GetParam(), [&](const Group& group) {
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      dissemination_barrier(group);
      ASSERT_GE(arrived.load(), round * group.size());
      dissemination_barrier(group);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DisseminationBarrier, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace hora::testing
