#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "collectives/shared_memory/shared_memory.h"
#include "support/route_cases.h"
#include "support/run_slots.h"

namespace hora::testing {
namespace {

class SharedAllgather : public ::testing::TestWithParam<RouteCase> {};

INSTANTIATE_TEST_SUITE_P(Routes, SharedAllgather, ::testing::ValuesIn(all_routes()), name_of);

TEST_P(SharedAllgather, takes_parts_of_any_length) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    for (const std::size_t length : lengths_around(route)) {
      Values expected;
      std::vector<std::size_t> bounds{0};
      for (int peer = 0; peer < rank.size(); ++peer) {
        const Values part = values_of(peer, peer == 1 ? 0 : length + static_cast<std::size_t>(peer));
        expected.insert(expected.end(), part.begin(), part.end());
        bounds.push_back(expected.size() * sizeof(float));
      }
      Values data(expected.size(), -1);
      const auto own = static_cast<std::size_t>(rank.rank());
      std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(bounds[own] / sizeof(float)),
                  (bounds[own + 1] - bounds[own]) / sizeof(float),
                  data.begin() + static_cast<std::ptrdiff_t>(bounds[own] / sizeof(float)));
      rank.run(batch++, [&](Slots& slots) {
        shared_allgather(slots, std::as_writable_bytes(std::span(data)), bounds, route);
      });
      ASSERT_EQ(data, expected) << length;
    }
  });
}

TEST(SharedExchange, may_happen_often_in_one_batch) {
  run_slots(3, kSlotBytes, [](SlotRank& rank) {
    for (std::uint64_t batch = 0; batch < 3; ++batch) {
      rank.run(batch, [&](Slots& slots) {
        for (std::int64_t number = 0; number < 20; ++number) {
          const std::int64_t own = number * 10 + rank.rank();
          const std::vector<std::int64_t> expected{number * 10, number * 10 + 1, number * 10 + 2};
          EXPECT_EQ(shared_exchange(slots, {&own, 1}), expected);
        }
      });
    }
  });
}

TEST(SharedExchange, brings_vectors_of_any_length_together) {
  for (const int size : {2, 3, 7}) {
    run_slots(size, kSlotBytes, [](SlotRank& rank) {
      std::uint64_t batch = 0;
      for (const std::size_t length : {1, 7, 8, 100, 3000}) {
        std::vector<std::int64_t> own(length);
        std::iota(own.begin(), own.end(), rank.rank() * 10'000);
        std::vector<std::int64_t> all;
        rank.run(batch++, [&](Slots& slots) { all = shared_exchange(slots, own); });
        for (int peer = 0; peer < rank.size(); ++peer) {
          const auto first = static_cast<std::size_t>(peer) * length;
          ASSERT_EQ(all[first], peer * 10'000);
          ASSERT_EQ(all[first + length - 1], peer * 10'000 + static_cast<int>(length) - 1);
        }
      }
    });
  }
}

}  // namespace
}  // namespace hora::testing
