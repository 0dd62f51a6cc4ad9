#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <thread>

#include "backends/nccl/nccl_backend.h"
#include "base/stragglers.h"
#include "stand_ins/fake_nccl.h"
#include "support/calls.h"
#include "support/device_ranks.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST_F(OnDevices, a_device_that_does_not_come_to_an_end_fails_the_job_with_the_name_of_the_tensor) {
  RunOptions options;
  options.settings.device.timeout = 1s;
  fake_nccl::fake_nccl_hang_at(1, 1);
  const TimePoint start = Clock::now();
  run_devices(
      3,
      [](DeviceRank& rank) {
        std::vector<float> values(4, 1.0f);
        rank.run(allreduce("good", ref(values)));
        DeviceRank::Begun begun = rank.begin(allreduce("bad", ref(values)));
        wait(rank.session(), begun.handle);  // it is launched
        const std::string error = error_of(rank.session(), allreduce("never", ref(values)));
        const std::string next = error.empty() ? error_of(rank.session(), barrier()) : error;
        static_cast<void>(next);
        std::string failure;
        while (failure.empty()) failure = error_of(rank.session(), barrier());
        EXPECT_THAT(failure, HasSubstr("allreduce 'bad'"));
        EXPECT_THROW(rank.session().order_before(*begun.handle, rank.device().place().stream), Error);
      },
      options);
  EXPECT_LT(Clock::now() - start, 15s);
}

TEST_F(OnDevices, an_error_of_a_remote_rank_fails_the_job) {
  fake_nccl::fake_nccl_error_at(0, 1);
  RunOptions options;
  options.settings.device.timeout = 5s;
  run_devices(
      2,
      [](DeviceRank& rank) {
        std::vector<float> values(4, 1.0f);
        rank.run(allreduce("good", ref(values)));
        std::string failure = rank.error(allreduce("bad", ref(values)));
        while (failure.empty()) failure = error_of(rank.session(), barrier());
        EXPECT_NE(failure, "");
      },
      options);
}

/// A job of three ranks one of which never begins with its second operation. When that has been told, each
/// rank goes on with `then`.
void run_into_hang(const std::shared_ptr<Stragglers>& stragglers, const std::function<void()>& then) {
  RunOptions options;
  options.settings.device.timeout = 500ms;
  options.settings.device.stragglers = stragglers;
  fake_nccl::fake_nccl_hang_at(1, 1);
  run_devices(
      3,
      [&](DeviceRank& rank) {
        std::vector<float> values(4, 1.0f);
        rank.run(allreduce("good", ref(values)));
        DeviceRank::Begun begun = rank.begin(allreduce("bad", ref(values)));
        while (error_of(rank.session(), barrier()).empty()) continue;
        then();
      },
      options);
}

TEST_F(OnDevices, after_an_abort_all_memory_is_given_back) {
  const auto stragglers = std::make_shared<Stragglers>();
  run_into_hang(stragglers, [] {});
  EXPECT_EQ(stragglers->wait(), "");
  const fake_nccl::Counts counts = fake_nccl::fake_nccl_counts();
  EXPECT_EQ(counts.communicators_aborted, 3u);
  EXPECT_EQ(counts.frees, counts.allocations);
}

TEST_F(OnDevices, what_the_device_may_be_at_is_kept_until_the_abort_comes_back) {
  const auto stragglers = std::make_shared<Stragglers>();
  fake_nccl::Options options;
  options.abort_ms = 3000;
  fake_nccl::fake_nccl_set_options(&options);
  run_into_hang(stragglers, [&] {
    EXPECT_THAT(stragglers->wait(), HasSubstr("ncclCommAbort has not come back after"));
    EXPECT_EQ(fake_nccl::fake_nccl_counts().frees, 0u);
  });
  const TimePoint deadline = Clock::now() + kSoon;
  while (!stragglers->wait().empty() && Clock::now() < deadline) std::this_thread::sleep_for(10ms);
  const fake_nccl::Counts counts = fake_nccl::fake_nccl_counts();
  EXPECT_EQ(counts.communicators_aborted, 3u);
  EXPECT_EQ(counts.frees, counts.allocations);
}

TEST_F(OnDevices, leaving_does_not_cut_short_the_making_of_a_communicator) {
  fake_nccl::Options slow;
  slow.max_delay_us = 2'000'000;
  fake_nccl::fake_nccl_set_options(&slow);
  RunOptions options;
  options.settings.leave_limit = 50ms;
  const TimePoint start = Clock::now();
  run_devices(
      2,
      [](DeviceRank& rank) {
        std::vector<float> values(4, 1.0f);
        DeviceRank::Begun begun = rank.begin(allreduce("x", ref(values)));
        while (rank.session().counters().plans == 0) std::this_thread::yield();
        rank.session().leave();
        EXPECT_EQ(error_of(rank.session(), begun.handle), "");
      },
      options);
  EXPECT_GT(Clock::now() - start, 6 * options.settings.leave_limit);  // it was slow
}

}  // namespace
}  // namespace hora::testing
