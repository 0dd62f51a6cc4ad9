#include "base/stragglers.h"

#include <gmock/gmock.h>

#include <future>
#include <thread>

namespace hora::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(Stragglers, are_waited_for_with_what_they_own) {
  const auto stragglers = std::make_shared<Stragglers>();
  const auto owned = std::make_shared<int>(5);
  for (int number = 0; number < 3; ++number) stragglers->start("work", 20s, [owned] {});
  EXPECT_EQ(stragglers->wait(), "");
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(Stragglers, one_that_takes_too_long_is_named_until_it_is_back) {
  const auto stragglers = std::make_shared<Stragglers>();
  const auto owned = std::make_shared<int>(5);
  std::promise<void> gate;
  stragglers->start("quick", 20s, [] {});
  stragglers->start("the slow one", 10ms, [owned, opened = gate.get_future().share()] { opened.wait(); });
  EXPECT_THAT(stragglers->wait(), HasSubstr("the slow one has not come back"));
  EXPECT_EQ(owned.use_count(), 2);
  gate.set_value();
  const TimePoint deadline = Clock::now() + 20s;
  while (!stragglers->wait().empty() && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(stragglers->wait(), "");
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace hora::testing
