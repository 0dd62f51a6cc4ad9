#include "core/handle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

using namespace std::chrono_literals;

TEST(Handle, is_open_until_it_is_completed) {
  Handle handle(Key{"x"});
  EXPECT_FALSE(handle.done());
  EXPECT_EQ(handle.error(), nullptr);
  EXPECT_TRUE(handle.outputs().empty());
  handle.succeed();
  EXPECT_TRUE(handle.done());
  EXPECT_EQ(handle.error(), nullptr);
  EXPECT_EQ(handle.value(), 0);
  EXPECT_EQ(handle.key(), (Key{"x"}));
}

TEST(Handle, keeps_the_error_it_failed_with) {
  Handle handle(Key{"x"});
  handle.fail(Error(ErrorKind::kMismatch, "ranks differ"));
  ASSERT_TRUE(handle.done());
  ASSERT_NE(handle.error(), nullptr);
  EXPECT_EQ(handle.error()->kind(), ErrorKind::kMismatch);
  EXPECT_STREQ(handle.error()->what(), "ranks differ");
}

TEST(Handle, hands_over_the_outputs_it_was_completed_with) {
  Handle handle(Key{"x"});
  handle.succeed({Output{nullptr, {3, 2}, DType::kFloat64, {1, 2}}, Output{nullptr, {5}, DType::kInt8, {5}}});
  ASSERT_EQ(handle.outputs().size(), 2u);
  EXPECT_EQ(handle.outputs()[0].bytes(), 48u);
  EXPECT_EQ(handle.outputs()[0].sizes.size(), 2u);
  EXPECT_EQ(handle.outputs()[1].bytes(), 5u);
}

TEST(Handle, hands_over_what_the_root_decided) {
  Handle handle(Key::join());
  handle.succeed({}, 31);
  EXPECT_EQ(handle.value(), 31);
}

TEST(Handle, a_wait_on_a_completed_one_returns_at_once) {
  Handle handle(Key{"x"});
  handle.succeed();
  EXPECT_TRUE(handle.wait_until(Clock::now() - 1h));
}

TEST(Handle, a_wait_ends_at_its_deadline) {
  Handle handle(Key{"x"});
  EXPECT_FALSE(handle.wait_until(Clock::now()));
  EXPECT_FALSE(handle.wait_until(Clock::now() + 2ms));
}

TEST(Handle, reports_its_completion_once) {
  const auto completions = std::make_shared<Completions>();
  Handle early(Key{"x"});
  Handle late(Key{"y"});
  early.succeed();
  late.report_to(completions, &late);
  early.report_to(completions, &early);
  std::thread engine([&] { late.fail(Error(ErrorKind::kMismatch, "ranks differ")); });
  std::vector<void*> tickets;
  while (tickets.size() < 2) {
    for (void* const ticket : completions->take()) tickets.push_back(ticket);
  }
  engine.join();
  EXPECT_THAT(tickets, testing::UnorderedElementsAre(&early, &late));
}

TEST(Handle, completion_wakes_every_waiting_thread) {
  Handle handle(Key{"x"});
  std::vector<std::thread> threads;
  std::atomic<int> woken{0};
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&] {
      if (handle.wait_until(Clock::now() + 20s)) ++woken;
    });
  }
  handle.succeed({Output{nullptr, {0}, DType::kFloat32, {0}}});
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken, 4);
}

}  // namespace
}  // namespace hora
