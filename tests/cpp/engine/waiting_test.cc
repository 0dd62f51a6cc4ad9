// Threads that wait take turns at the engine's work; each ends when its own call is complete.

#include <gtest/gtest.h>

#include <thread>

#include "api/session.h"
#include "engine/counters.h"
#include "support/calls.h"
#include "support/run_ranks.h"

namespace hora::testing {
namespace {

using namespace std::chrono_literals;

// Long against what anything here needs.
constexpr auto kSoon = 4s;

TEST(Waiting, of_many_threads_ends_for_each_when_its_own_call_is_complete) {
  run_ranks(3, [](Session& session) {
    std::vector<std::thread> threads;
    std::vector<std::vector<float>> tensors(4, std::vector<float>(10, 1.0f));
    for (std::size_t number = 0; number < tensors.size(); ++number) {
      threads.emplace_back([&, number] {
        for (int round = 0; round < 30; ++round)
          EXPECT_EQ(error_of(session, allreduce("t" + std::to_string(number), ref(tensors[number]),
                                                ReduceOp::kAverage)),
                    "");
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& tensor : tensors) EXPECT_EQ(tensor, std::vector<float>(10, 1.0f));
  });
}

TEST(Waiting, of_nobody_does_not_keep_calls_from_completing) {
  run_ranks(3, [](Session& session) {
    std::vector<float> values(10, 1.0f);
    const HandlePtr handle = session.submit(allreduce("x", ref(values)));
    const TimePoint deadline = Clock::now() + kSoon;
    while (!handle->done() && Clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(handle->done());
    // Done on this rank does not mean done on the others, so nobody may leave yet.
    run(session, barrier());
  });
}

TEST(Waiting, of_one_thread_does_not_hold_up_a_call_of_another_on_the_same_rank) {
  // Rank 1 never calls "late" before "x" is through, so rank 0 waits for "late" all the time.
  run_ranks(2, [](Session& session) {
    std::vector<float> late{1};
    std::vector<float> values{1};
    if (session.topology().rank() == 0) {
      const HandlePtr handle = session.submit(allreduce("late", ref(late)));
      std::thread waiter([&] { EXPECT_EQ(error_of(session, handle), ""); });
      for (int round = 0; round < 20; ++round) EXPECT_EQ(error_of(session, allreduce("x", ref(values))), "");
      waiter.join();
    } else {
      for (int round = 0; round < 20; ++round) EXPECT_EQ(error_of(session, allreduce("x", ref(values))), "");
      EXPECT_EQ(error_of(session, allreduce("late", ref(late))), "");
    }
    EXPECT_EQ(late[0], 2.0f);
  });
}

TEST(Waiting, while_another_thread_leaves_ends_with_an_error) {
  for (int round = 0; round < 20; ++round) {
    run_ranks(2, [](Session& session) {
      std::vector<float> values{1};
      std::string error;
      // A name of its own on each rank, so that it never completes.
      const HandlePtr handle =
          session.submit(allreduce("x" + std::to_string(session.topology().rank()), ref(values)));
      run(session, barrier("all have called"));
      std::thread waiter([&] { error = error_of(session, handle); });
      session.leave();
      waiter.join();
      EXPECT_NE(error, "");
    });
  }
}

}  // namespace
}  // namespace hora::testing
