#include "transport/shm/heap.h"

#include <gtest/gtest.h>

#include <array>
#include <iterator>
#include <map>
#include <random>

namespace hora {
namespace {

constexpr std::size_t kStart = 4096;

TEST(Heap, blocks_are_whole_pages_side_by_side) {
  Heap heap(kStart, 10 * 4096);
  EXPECT_EQ(heap.take(1), kStart);
  EXPECT_EQ(heap.take(4097), kStart + 4096);
  EXPECT_EQ(heap.take(0), kStart + 3 * 4096);
}

TEST(Heap, what_does_not_fit_is_refused_and_the_rest_stays_usable) {
  Heap heap(kStart, 2 * 4096);
  EXPECT_EQ(heap.take(3 * 4096), std::nullopt);
  EXPECT_EQ(heap.take(2 * 4096), kStart);
  EXPECT_EQ(heap.take(1), std::nullopt);
}

TEST(Heap, blocks_given_back_grow_together_again) {
  Heap heap(kStart, 3 * 4096);
  constexpr std::array<std::array<std::size_t, 3>, 6> kOrders{
      {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  for (const auto& order : kOrders) {
    const std::array blocks{heap.take(1).value(), heap.take(1).value(), heap.take(1).value()};
    for (const std::size_t block : order) heap.give_back(blocks[block]);
    const auto whole = heap.take(3 * 4096);
    ASSERT_EQ(whole, kStart);
    heap.give_back(*whole);
  }
}

TEST(Heap, blocks_in_use_never_overlap) {
  constexpr std::size_t kBytes = 200 * 4096;
  Heap heap(kStart, kBytes);
  std::mt19937 random(1);
  std::map<std::size_t, std::size_t> taken;
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2 == 0 && !taken.empty()) {
      auto victim = taken.begin();
      std::advance(victim, random() % taken.size());
      heap.give_back(victim->first);
      taken.erase(victim);
      continue;
    }
    const std::size_t bytes = 1 + random() % 30'000;
    const auto first = heap.take(bytes);
    if (!first) continue;
    ASSERT_GE(*first, kStart);
    ASSERT_LE(*first + bytes, kStart + kBytes);
    const auto next = taken.lower_bound(*first);
    if (next != taken.end()) {
      ASSERT_LE(*first + bytes, next->first);
    }
    if (next != taken.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *first);
    }
    taken.emplace(*first, bytes);
  }
}

}  // namespace
}  // namespace hora
