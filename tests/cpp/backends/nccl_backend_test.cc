#include "backends/nccl/nccl_backend.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "stand_ins/fake_nccl.h"
#include "support/calls.h"
#include "support/device_ranks.h"

namespace hora::testing {
namespace {

using ::testing::Each;
using ::testing::FloatNear;

TEST_F(OnDevices, sums_over_all_ranks) {
  for (const int size : {1, 2, 3, 4}) {
    run_devices(size, [&](DeviceRank& rank) {
      for (const std::size_t length : {0u, 1u, 5u, 100'000u}) {
        std::vector<float> values(length, static_cast<float>(rank.number() + 1));
        rank.run(allreduce("x", ref(values)));
        EXPECT_THAT(values, Each(static_cast<float>(size * (size + 1) / 2)));
      }
    });
  }
}

TEST_F(OnDevices, process_sets_have_their_own_communicators) {
  run_devices(4, [](DeviceRank& rank) {
    const int own = rank.number();
    const std::int32_t odd = add_set(rank.session(), {1, 3});
    const std::int32_t low = add_set(rank.session(), {0, 1, 2});
    for (int round = 0; round < 5; ++round) {
      std::vector<float> all(7, 1.0f);
      std::vector<float> some(9, static_cast<float>(own));
      std::vector<float> others(11, static_cast<float>(own));
      std::vector<DeviceRank::Begun> begun;
      begun.push_back(rank.begin(allreduce("all", ref(all))));
      if (own % 2 == 1) begun.push_back(rank.begin(on(odd, allreduce("some", ref(some)))));
      if (own < 3) begun.push_back(rank.begin(on(low, allreduce("others", ref(others)))));
      for (DeviceRank::Begun& each : begun) rank.finish(each);
      EXPECT_THAT(all, Each(4.0f));
      EXPECT_THAT(some, Each(own % 2 == 1 ? 4.0f : static_cast<float>(own)));
      EXPECT_THAT(others, Each(own < 3 ? 3.0f : static_cast<float>(own)));
    }
    run(rank.session(), remove_process_set({1, 3}));
    run(rank.session(), barrier());
  });
  const fake_nccl::Counts counts = fake_nccl::fake_nccl_counts();
  EXPECT_EQ(counts.communicators_made, 4u + 2u + 3u);
  EXPECT_EQ(counts.communicators_destroyed, counts.communicators_made);
  EXPECT_EQ(counts.communicators_aborted, 0u);
  EXPECT_EQ(counts.allocations, counts.frees);
}

TEST_F(OnDevices, a_rank_that_has_joined_contributes_nothing) {
  run_devices(3, [](DeviceRank& rank) {
    const int own = rank.number();
    if (own == 2) {
      run(rank.session(), join());
      return;
    }
    std::vector<float> sum(100, 2.0f);
    std::vector<float> mean(100, static_cast<float>(own));
    std::vector<float> least(100, 5.0f);
    rank.run(allreduce("sum", ref(sum)));
    rank.run(allreduce("mean", ref(mean), ReduceOp::kAverage));
    rank.run(allreduce("least", ref(least), ReduceOp::kMin));
    EXPECT_THAT(sum, Each(4.0f));
    EXPECT_THAT(mean, Each(0.5f));
    EXPECT_THAT(least, Each(5.0f));
    run(rank.session(), join());
  });
}

TEST_F(OnDevices, numbers_may_travel_as_halves) {
  run_devices(4, [](DeviceRank& rank) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
      std::vector<std::vector<float>> values(3, std::vector<float>(1000, 0.1f));
      std::vector<std::int32_t> integers(10, 1);
      std::vector<DeviceRank::Begun> all;
      for (std::size_t at = 0; at < values.size(); ++at) {
        Call call = allreduce(fmt::format("x{}", at), ref(values[at]), op);
        call.wire = DType::kFloat16;
        all.push_back(rank.begin(call));
      }
      Call as_they_are = allreduce("integers", ref(integers));
      as_they_are.wire = DType::kFloat16;
      all.push_back(rank.begin(as_they_are));
      for (DeviceRank::Begun& each : all) rank.finish(each);
      EXPECT_THAT(values, Each(Each(FloatNear(op == ReduceOp::kSum ? 0.4f : 0.1f, 1e-3f))));
      EXPECT_THAT(integers, Each(4));
    }
  });
  std::vector<fake_nccl::Call> calls(fake_nccl::fake_nccl_log(nullptr, 0));
  fake_nccl::fake_nccl_log(calls.data(), calls.size());
  for (const fake_nccl::Call& call : calls)
    EXPECT_TRUE(call.type == nccl::DataType::kFloat16 || call.type == nccl::DataType::kInt32);
}

}  // namespace
}  // namespace hora::testing
