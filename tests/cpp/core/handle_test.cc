#include "core/handle.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

using namespace std::chrono_literals;

TEST(Handle, is_open_until_it_is_completed) {
  Handle handle("x");
  EXPECT_FALSE(handle.done());
  EXPECT_EQ(handle.error(), nullptr);
  EXPECT_EQ(handle.output(), nullptr);
  handle.succeed();
  EXPECT_TRUE(handle.done());
  EXPECT_EQ(handle.error(), nullptr);
  EXPECT_EQ(handle.name(), "x");
}

TEST(Handle, keeps_the_error_it_failed_with) {
  Handle handle("x");
  handle.fail(Error(ErrorKind::kMismatch, "ranks differ"));
  ASSERT_TRUE(handle.done());
  ASSERT_NE(handle.error(), nullptr);
  EXPECT_EQ(handle.error()->kind(), ErrorKind::kMismatch);
  EXPECT_STREQ(handle.error()->what(), "ranks differ");
}

TEST(Handle, hands_over_the_output_it_was_completed_with) {
  Handle handle("x");
  handle.succeed(Output{nullptr, {3, 2}, DType::kFloat64, {1, 2}});
  ASSERT_NE(handle.output(), nullptr);
  EXPECT_EQ(handle.output()->bytes(), 48u);
  EXPECT_EQ(handle.output()->sizes.size(), 2u);
}

TEST(Handle, a_wait_on_a_completed_one_returns_at_once) {
  Handle handle("x");
  handle.succeed();
  EXPECT_TRUE(handle.wait_until(Clock::now() - 1h));
}

TEST(Handle, a_wait_ends_at_its_deadline) {
  Handle handle("x");
  EXPECT_FALSE(handle.wait_until(Clock::now()));
  EXPECT_FALSE(handle.wait_until(Clock::now() + 2ms));
}

TEST(Handle, completion_wakes_every_waiting_thread) {
  Handle handle("x");
  std::vector<std::thread> threads;
  std::atomic<int> woken{0};
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&] {
      if (handle.wait_until(Clock::now() + 20s)) ++woken;
    });
  }
  handle.succeed(Output{nullptr, {0}, DType::kFloat32, {0}});
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken, 4);
}

}  // namespace
}  // namespace hora
