#include <gtest/gtest.h>

#include <vector>

#include "collectives/shared_memory/shared_memory.h"
#include "support/route_cases.h"
#include "support/run_slots.h"

namespace hora::testing {
namespace {

class SharedReduceScatter : public ::testing::TestWithParam<RouteCase> {};

INSTANTIATE_TEST_SUITE_P(Routes, SharedReduceScatter, ::testing::ValuesIn(all_routes()), name_of);

TEST_P(SharedReduceScatter, sums_parts_of_any_length) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    for (const std::size_t length : lengths_around(route)) {
      const auto count = [&](int owner) { return owner == 1 ? 0 : length + static_cast<std::size_t>(owner); };
      std::vector<Values> inputs;
      for (int owner = 0; owner < rank.size(); ++owner)
        inputs.push_back(values_of(rank.rank() + 100 * owner, count(owner)));
      Values output(count(rank.rank()), -1);
      Values expected(output.size());
      for (int peer = 0; peer < rank.size(); ++peer) {
        for (std::size_t at = 0; at < expected.size(); ++at)
          expected[at] += value_of(peer + 100 * rank.rank(), at);
      }
      std::vector<Pieces> parts;
      for (int owner = 0; owner < rank.size(); ++owner) {
        const auto at = static_cast<std::size_t>(owner);
        parts.push_back(pieces_of(&inputs[at], owner == rank.rank() ? &output : nullptr, count(owner), 50));
      }
      rank.run(batch++, [&](Slots& slots) {
        shared_reduce_scatter(slots, parts, {DType::kFloat32, ReduceOp::kSum}, true, route);
      });
      ASSERT_EQ(output, expected) << length;
    }
  });
}

}  // namespace
}  // namespace hora::testing
