#include <gmock/gmock.h>

#include <atomic>

#include "backends/nccl/nccl_backend.h"
#include "stand_ins/fake_nccl.h"
#include "support/calls.h"
#include "support/device_ranks.h"

namespace hora::testing {
namespace {

TEST_F(OnDevices, little_memory_makes_the_staging_smaller_on_all_ranks) {
  fake_nccl::fake_nccl_fail_allocations(3);
  run_devices(3, [](DeviceRank& rank) {
    std::vector<std::int16_t> values(3'000'000, 1);  // travels packed, in pieces
    rank.run(allreduce("x", ref(values)));
    EXPECT_THAT(values.front(), 3);
    EXPECT_THAT(values.back(), 3);
  });
}

TEST_F(OnDevices, where_memory_is_short_the_framework_is_asked_first) {
  std::atomic<int> asked = 0;
  RunOptions options;
  options.settings.device.free_memory = [&] { ++asked; };
  fake_nccl::fake_nccl_fail_allocations(1);
  run_devices(
      1,
      [](DeviceRank& rank) {
        std::vector<float> values(10, 1.0f);
        rank.run(allreduce("x", ref(values)));
      },
      options);
  EXPECT_EQ(asked, 1);
}

TEST_F(OnDevices, results_that_the_core_allocates_are_used_again) {
  run_devices(2, [](DeviceRank& rank) {
    const auto round = [&] {
      std::vector<float> values(1000, 1.0f);
      EXPECT_EQ(rank.run(allgather("x", ref(values))).front().shape, (Shape{2000}));
    };
    round();
    round();
    run(rank.session(), barrier());
    const std::uint64_t before = fake_nccl::fake_nccl_counts().allocations;
    for (int again = 0; again < 5; ++again) round();
    EXPECT_EQ(fake_nccl::fake_nccl_counts().allocations, before);
    run(rank.session(), barrier());
  });
}

}  // namespace
}  // namespace hora::testing
