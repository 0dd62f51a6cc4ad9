#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "backends/nccl/nccl_backend.h"
#include "stand_ins/fake_cuda.h"
#include "stand_ins/fake_nccl.h"
#include "support/calls.h"
#include "support/device_ranks.h"

namespace hora::testing {
namespace {

using ::testing::Each;
using namespace std::chrono_literals;

TEST_F(OnDevices, the_wait_ends_when_the_batch_is_launched_and_results_follow_the_tensors) {
  run_devices(2, [](DeviceRank& rank) {
    std::vector<float> warm(1, 1.0f);
    rank.run(allreduce("warm", ref(warm)));
    std::vector<float> values(1000, 1.0f);
    Gate gate;
    gate.close(rank.device());  // the program's kernels take their time
    DeviceRank::Begun begun = rank.begin(allreduce("x", ref(values)));
    EXPECT_TRUE(rank.session().wait_until(*begun.handle, Clock::now() + kSoon));
    ASSERT_EQ(begun.handle->error(), nullptr);
    EXPECT_FALSE(begun.handle->work()->is_complete());
    gate.open();
    rank.finish(begun);
    EXPECT_TRUE(begun.handle->work()->is_complete());
    EXPECT_THAT(values, Each(2.0f));
  });
}

TEST_F(OnDevices, nothing_waits_for_the_device_once_all_is_set_up) {
  run_devices(2, [](DeviceRank& rank) {
    std::vector<std::vector<float>> values(20, std::vector<float>(300, 1.0f));
    const auto round = [&] {
      std::vector<DeviceRank::Begun> all;
      for (std::size_t at = 0; at < values.size(); ++at)
        all.push_back(rank.begin(allreduce(fmt::format("x{}", at), ref(values[at]))));
      for (const DeviceRank::Begun& each : all) {
        wait(rank.session(), each.handle);
        rank.session().order_before(*each.handle, rank.device().place().stream);
      }
      return all;
    };
    auto first = round();
    rank.device().synchronize();
    run(rank.session(), barrier());
    const fake_cuda::Counts before = fake_cuda::fake_cuda_counts();
    auto second = round();
    run(rank.session(), barrier());
    EXPECT_EQ(fake_cuda::fake_cuda_counts().synchronizations, before.synchronizations);
    run(rank.session(), barrier());
    rank.device().synchronize();
  });
}

TEST_F(OnDevices, all_ranks_launch_in_one_order_whatever_the_order_of_submission) {
  constexpr int kSize = 3;
  run_devices(kSize, [](DeviceRank& rank) {
    std::mt19937 random(static_cast<unsigned>(rank.number()));
    std::vector<std::vector<float>> values(40);
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int round = 0; round < 3; ++round) {
      std::ranges::shuffle(order, random);
      std::vector<DeviceRank::Begun> all(values.size());
      for (const std::size_t at : order) {
        values[at].assign(at + 1, 1.0f);
        Call call = at % 3 == 0 ? broadcast(fmt::format("x{}", at), ref(values[at]), 1)
                                : allreduce(fmt::format("x{}", at), ref(values[at]));
        all[at] = rank.begin(std::move(call));
      }
      for (std::size_t at = 0; at < all.size(); ++at) {
        rank.finish(all[at]);
        EXPECT_THAT(values[at], Each(at % 3 == 0 ? 1.0f : 3.0f));
      }
    }
  });
  std::vector<fake_nccl::Call> calls(fake_nccl::fake_nccl_log(nullptr, 0));
  fake_nccl::fake_nccl_log(calls.data(), calls.size());
  std::map<int, std::vector<std::pair<fake_nccl::Kind, std::size_t>>> by_rank;
  for (const fake_nccl::Call& call : calls) by_rank[call.rank].emplace_back(call.kind, call.count);
  ASSERT_EQ(by_rank.size(), static_cast<std::size_t>(kSize));
  for (const auto& [rank, launched] : by_rank) EXPECT_EQ(launched, by_rank[0]) << "rank " << rank;
  EXPECT_EQ(fake_nccl::fake_nccl_counts().groups_of_several_communicators, 0u);
}

TEST_F(OnDevices, calls_are_held_back_while_two_batches_are_under_way_unless_somebody_waits) {
  run_devices(2, [](DeviceRank& rank) {
    std::vector<float> warm(1, 1.0f);
    rank.run(allreduce("warm", ref(warm)));
    run(rank.session(), barrier());
    const std::uint64_t before = rank.session().counters().batches;
    Gate gate;
    gate.close(rank.device());
    std::vector<std::vector<float>> values(10, std::vector<float>(10, 1.0f));
    std::vector<DeviceRank::Begun> all;
    for (std::size_t at = 0; at < 2; ++at) {
      all.push_back(rank.begin(allreduce(fmt::format("x{}", at), ref(values[at]))));
      EXPECT_TRUE(rank.session().wait_until(*all.back().handle, Clock::now() + kSoon));
    }
    for (std::size_t at = 2; at < values.size(); ++at)
      all.push_back(rank.begin(allreduce(fmt::format("x{}", at), ref(values[at]))));
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(rank.session().counters().batches, before + 2);
    EXPECT_FALSE(all.back().handle->done());
    std::vector<float> looked(1);
    run(rank.session(), allreduce("looked", ref(looked)));  // goes past them
    if (rank.number() == 1) {
      EXPECT_TRUE(rank.session().wait_until(*all[5].handle, Clock::now() + kSoon));
    }
    gate.open();
    for (std::size_t at = 0; at < all.size(); ++at) rank.finish(all[at]);
    EXPECT_THAT(values, Each(Each(2.0f)));
    EXPECT_EQ(rank.session().counters().batches, before + 4);
    run(rank.session(), barrier());
  });
}

TEST_F(OnDevices, calls_that_are_held_back_go_when_the_device_is_through_with_a_batch) {
  run_devices(2, [](DeviceRank& rank) {
    std::vector<float> warm(1, 1.0f);
    rank.run(allreduce("warm", ref(warm)));
    run(rank.session(), barrier());
    Gate gate;
    gate.close(rank.device());
    std::vector<std::vector<float>> values(4, std::vector<float>(10, 1.0f));
    std::vector<DeviceRank::Begun> all;
    for (std::size_t at = 0; at < values.size(); ++at) {
      all.push_back(rank.begin(allreduce(fmt::format("x{}", at), ref(values[at]))));
      if (at < 2) {
        EXPECT_TRUE(rank.session().wait_until(*all.back().handle, Clock::now() + kSoon));
      }
    }
    gate.open();
    const TimePoint deadline = Clock::now() + kSoon;
    while (!all.back().handle->done() && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(all.back().handle->done());  // nobody has waited for it
    for (DeviceRank::Begun& each : all) rank.finish(each);
    run(rank.session(), barrier());
  });
}

TEST_F(OnDevices, calls_of_a_set_without_the_root_are_held_back_until_its_device_is_through_with_a_batch) {
  run_devices(3, [](DeviceRank& rank) {
    const std::int32_t set = add_set(rank.session(), {1, 2});
    if (rank.number() > 0) {
      std::vector<float> warm(1, 1.0f);
      rank.run(on(set, allreduce("warm", ref(warm))));
      Gate gate;
      gate.close(rank.device());
      std::vector<std::vector<float>> values(4, std::vector<float>(10, 1.0f));
      std::vector<DeviceRank::Begun> all;
      for (std::size_t at = 0; at < values.size(); ++at) {
        all.push_back(rank.begin(on(set, allreduce(fmt::format("x{}", at), ref(values[at])))));
        if (at < 2) {
          EXPECT_TRUE(rank.session().wait_until(*all.back().handle, Clock::now() + kSoon));
        }
      }
      std::this_thread::sleep_for(50ms);
      EXPECT_FALSE(all.back().handle->done());
      gate.open();
      const TimePoint deadline = Clock::now() + kSoon;
      while (!all.back().handle->done() && Clock::now() < deadline) std::this_thread::yield();
      EXPECT_TRUE(all.back().handle->done());  // nobody has waited for it
      for (DeviceRank::Begun& each : all) rank.finish(each);
      EXPECT_THAT(values, Each(Each(2.0f)));
    }
    run(rank.session(), barrier());
  });
}

TEST_F(OnDevices, the_program_may_capture_a_graph_while_batches_are_under_way) {
  run_devices(2, [](DeviceRank& rank) {
    std::vector<float> values(4, 1.0f);
    rank.run(allreduce("warm", ref(values)));
    values.assign(4, 1.0f);
    DeviceRank::Begun begun = rank.begin(allreduce("x", ref(values)));
    const TestDevice other(rank.device().number());  // another stream
    std::vector<float> ready(1);
    run(rank.session(), allreduce("ready", ref(ready)));  // the ranks share a process, but not what it may do
    ASSERT_EQ(fake_cuda::fake_cuda_set_capturing(other.stream(), true), cuda::Result::kSuccess);
    wait(rank.session(), begun.handle);
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(fake_cuda::fake_cuda_set_capturing(other.stream(), false), cuda::Result::kSuccess);
    run(rank.session(), allreduce("ready", ref(ready)));
    rank.finish(begun);
    EXPECT_THAT(values, Each(2.0f));
    run(rank.session(), barrier());
  });
}

TEST_F(OnDevices, with_the_setting_a_wait_ends_when_the_device_is_through) {
  RunOptions options;
  options.settings.device.waits_on_host = true;
  run_devices(
      2,
      [](DeviceRank& rank) {
        std::vector<float> values(4, 1.0f);
        DeviceRank::Begun begun = rank.begin(allreduce("x", ref(values)));
        wait(rank.session(), begun.handle);
        rank.session().order_before(*begun.handle, rank.device().place().stream);
        EXPECT_TRUE(begun.handle->work()->is_complete());
        rank.finish(begun);
        run(rank.session(), barrier());
      },
      options);
}

TEST_F(OnDevices, streams_in_any_order_give_the_same_results) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const fake_cuda::Options options{.seed = seed};
    fake_cuda::fake_cuda_set_options(&options);
    run_devices(3, [](DeviceRank& rank) {
      std::vector<std::vector<float>> values(10, std::vector<float>(50, 1.0f));
      std::vector<DeviceRank::Begun> all;
      for (std::size_t at = 0; at < values.size(); ++at)
        all.push_back(rank.begin(allreduce(fmt::format("x{}", at), ref(values[at]))));
      for (DeviceRank::Begun& each : all) rank.finish(each);
      EXPECT_THAT(values, Each(Each(3.0f)));
      run(rank.session(), barrier());
    });
  }
}

}  // namespace
}  // namespace hora::testing
