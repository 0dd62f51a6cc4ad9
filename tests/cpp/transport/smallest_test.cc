#include "transport/smallest.h"

#include <gtest/gtest.h>

#include "support/run_ranks.h"

namespace hora::testing {
namespace {

class Smallest : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Smallest, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(Smallest, is_known_to_every_rank_wherever_it_is) {
  const int size = GetParam();
  run_transports(size, [size](Transport& transport) {
    for (int lowest = 0; lowest < size; ++lowest) {
      const int distance = (transport.topology().rank() - lowest + size) % size;
      EXPECT_EQ(smallest(transport, 100 + distance), 100);
    }
  });
}

}  // namespace
}  // namespace hora::testing
