#include <gtest/gtest.h>

#include "collectives/shared_memory/shared_memory.h"
#include "support/route_cases.h"
#include "support/run_slots.h"

namespace hora::testing {
namespace {

class SharedBroadcast : public ::testing::TestWithParam<RouteCase> {};

INSTANTIATE_TEST_SUITE_P(Routes, SharedBroadcast, ::testing::ValuesIn(all_routes()), name_of);

TEST_P(SharedBroadcast, comes_from_every_root) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    for (const std::size_t length : lengths_around(route)) {
      for (int root = 0; root < rank.size(); ++root) {
        const Values input = values_of(rank.rank(), length);
        Values output(length, -1);
        rank.run(batch++, [&](Slots& slots) {
          shared_broadcast(slots, pieces_of(&input, &output, length, 50), root, route);
        });
        ASSERT_EQ(output, values_of(root, length)) << length;
      }
    }
  });
}

}  // namespace
}  // namespace hora::testing
