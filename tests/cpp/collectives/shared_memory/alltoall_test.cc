#include <gtest/gtest.h>

#include <vector>

#include "collectives/shared_memory/shared_memory.h"
#include "support/route_cases.h"
#include "support/run_slots.h"

namespace hora::testing {
namespace {

class SharedAlltoall : public ::testing::TestWithParam<RouteCase> {};

INSTANTIATE_TEST_SUITE_P(Routes, SharedAlltoall, ::testing::ValuesIn(all_routes()), name_of);

TEST_P(SharedAlltoall, takes_messages_of_any_length) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    const int size = rank.size();
    for (const std::size_t length : lengths_around(route)) {
      const auto count = [&](int from, int to) {
        return (from + 2 * to) % 3 == 0 ? 0 : length + static_cast<std::size_t>(to);
      };
      std::vector<std::size_t> bytes;
      Values source;
      Values expected;
      for (int from = 0; from < size; ++from) {
        for (int to = 0; to < size; ++to) {
          bytes.push_back(count(from, to) * sizeof(float));
          const Values message = values_of(from * size + to, count(from, to));
          if (from == rank.rank()) source.insert(source.end(), message.begin(), message.end());
          if (to == rank.rank()) expected.insert(expected.end(), message.begin(), message.end());
        }
      }
      Values destination(expected.size(), -1);
      rank.run(batch++, [&](Slots& slots) {
        shared_alltoall(slots, std::as_bytes(std::span(source)),
                        std::as_writable_bytes(std::span(destination)), bytes, route);
      });
      ASSERT_EQ(destination, expected) << length;
    }
  });
}

}  // namespace
}  // namespace hora::testing
