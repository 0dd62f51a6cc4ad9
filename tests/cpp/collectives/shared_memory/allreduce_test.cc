#include <gtest/gtest.h>

#include "collectives/shared_memory/shared_memory.h"
#include "support/route_cases.h"
#include "support/run_slots.h"

namespace hora::testing {
namespace {

class SharedAllreduce : public ::testing::TestWithParam<RouteCase> {};

INSTANTIATE_TEST_SUITE_P(Routes, SharedAllreduce, ::testing::ValuesIn(all_routes()), name_of);

TEST_P(SharedAllreduce, sums_in_place_and_not) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    for (const std::size_t length : lengths_around(route)) {
      Values expected(length);
      for (int peer = 0; peer < rank.size(); ++peer) {
        for (std::size_t at = 0; at < length; ++at) expected[at] += value_of(peer, at);
      }
      for (const bool in_place : {false, true}) {
        Values input = values_of(rank.rank(), length);
        Values output(length, -1);
        Values& result = in_place ? input : output;
        rank.run(batch++, [&](Slots& slots) {
          shared_allreduce(slots, pieces_of(&input, &result, length, 50), {DType::kFloat32, ReduceOp::kSum},
                           true, route);
        });
        ASSERT_EQ(result, expected) << length;
      }
    }
  });
}

TEST_P(SharedAllreduce, leaves_out_ranks_that_have_joined) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    for (const std::size_t length : lengths_around(route)) {
      for (int absent = 0; absent < rank.size(); ++absent) {
        // Product shows that nothing stands in for the absent rank, not even a scaled one.
        Values expected(length, 1);
        for (int peer = 0; peer < rank.size(); ++peer)
          if (peer != absent)
            for (std::size_t at = 0; at < length; ++at) expected[at] *= 2 * static_cast<float>(at % 5);
        Values values(length);
        for (std::size_t at = 0; at < length; ++at) values[at] = static_cast<float>(at % 5);
        const bool is_absent = rank.rank() == absent;
        rank.run(batch++, [&](Slots& slots) {
          shared_allreduce(
              slots, pieces_of(is_absent ? nullptr : &values, is_absent ? nullptr : &values, length, 50),
              {DType::kFloat32, ReduceOp::kProduct, 2.0}, false, route);
        });
        if (is_absent) continue;
        ASSERT_EQ(values, expected) << length;
      }
    }
  });
}

}  // namespace
}  // namespace hora::testing
