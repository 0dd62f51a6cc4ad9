#include "transport/smallest.h"

#include <gtest/gtest.h>

#include "base/error.h"
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
      EXPECT_EQ(smallest(transport, 100 + distance, std::chrono::seconds(30)), 100);
    }
  });
}

TEST(StartDeadline, ends_the_wait_for_a_rank_that_does_not_come) {
  run_transports(2, [](Transport& transport) {
    if (transport.topology().rank() == 1) return;
    try {
      static_cast<void>(smallest(transport, 1, std::chrono::seconds(1)));
      ADD_FAILURE() << "goes on";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "not all ranks called init within 1 s (HORA_START_TIMEOUT_SECONDS)");
    }
  });
}

}  // namespace
}  // namespace hora::testing
