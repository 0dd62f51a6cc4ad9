#include "base/bell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace hora {
namespace {

using namespace std::chrono_literals;

/// Far longer than anything here takes: a sleep that lasts so long has missed its bell.
constexpr auto kLong = 20s;

Duration time_of(auto action) {
  const TimePoint start = Clock::now();
  action();
  return Clock::now() - start;
}

TEST(Bell, a_sleep_ends_when_its_time_is_over) {
  Bell bell;
  EXPECT_GE(time_of([&] { bell.sleep(2ms); }), 2ms);
}

TEST(Bell, a_ring_before_the_sleep_ends_it_at_once) {
  Bell bell;
  bell.ring();
  EXPECT_LT(time_of([&] { bell.sleep(kLong); }), kLong / 2);
}

TEST(Bell, several_rings_end_one_sleep_only) {
  Bell bell;
  bell.ring();
  bell.ring();
  bell.sleep(kLong);
  EXPECT_GE(time_of([&] { bell.sleep(2ms); }), 2ms);
}

TEST(Bell, no_ring_is_lost_between_two_threads) {
  constexpr int kRounds = 5000;
  Bell ping;
  Bell pong;
  std::atomic<int> sent{0};
  std::atomic<int> answered{0};
  std::thread other([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (sent.load() < round) ping.sleep(kLong);
      answered = round;
      pong.ring();
    }
  });
  const Duration took = time_of([&] {
    for (int round = 1; round <= kRounds; ++round) {
      sent = round;
      ping.ring();
      while (answered.load() < round) pong.sleep(kLong);
    }
  });
  other.join();
  EXPECT_LT(took, kLong);
}

}  // namespace
}  // namespace hora
