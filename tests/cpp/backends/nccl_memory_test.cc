#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <thread>

#include "backends/nccl/nccl_backend.h"
#include "stand_ins/fake_cuda.h"
#include "stand_ins/fake_nccl.h"
#include "support/calls.h"
#include "support/device_ranks.h"

namespace hora::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

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

/// All allocations on devices fail while it lives.
class NoMemory {
 public:
  NoMemory() { fake_cuda::fake_cuda_fail_allocations(1'000'000); }
  ~NoMemory() { fake_cuda::fake_cuda_fail_allocations(0); }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};

TEST_F(OnDevices, where_memory_for_a_result_is_short_the_framework_is_asked_on_the_calling_thread) {
  std::atomic<int> asked = 0;
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<std::thread::id> asked_on = caller;
  RunOptions options;
  options.settings.device.free_memory = [&] {
    ++asked;
    asked_on = std::this_thread::get_id();
    fake_cuda::fake_cuda_fail_allocations(0);
  };
  run_devices(
      1,
      [&](DeviceRank& rank) {
        std::vector<float> values(1000, 3.0f);
        rank.run(allreduce("warm", ref(values)));
        CallOnDevice call(rank.device(), allgather("x", ref(values)), 0, 1);
        fake_cuda::fake_cuda_fail_allocations(1'000'000);
        const HandlePtr handle = rank.session().submit(call.call());
        wait(rank.session(), handle);
        EXPECT_EQ(call.bring_back(rank.session(), *handle).front().shape, (Shape{1000}));
        EXPECT_EQ(asked_on.load(), std::this_thread::get_id());
      },
      options);
  EXPECT_EQ(asked, 1);
}

TEST_F(OnDevices, a_rank_without_memory_for_a_result_fails_the_call_on_all_and_the_job_goes_on) {
  for (const bool is_allgather : {true, false}) {
    run_devices(3, [&](DeviceRank& rank) {
      std::vector<float> values(3000, 1.0f);
      const auto make = [&](const std::string& name) {
        return is_allgather ? allgather(name, ref(values)) : alltoall(name, ref(values), {1000, 1000, 1000});
      };
      rank.run(allreduce("warm", ref(values)));
      CallOnDevice call(rank.device(), make("x"), rank.number(), 3);
      run(rank.session(), barrier());
      HandlePtr handle;
      // The others have put memory aside before there is none.
      if (rank.number() != 1) handle = rank.session().submit(call.call());
      run(rank.session(), barrier());
      {
        const std::unique_ptr<NoMemory> none = rank.number() == 1 ? std::make_unique<NoMemory>() : nullptr;
        if (rank.number() == 1) handle = rank.session().submit(call.call());
        EXPECT_THAT(error_of(rank.session(), handle),
                    AllOf(HasSubstr("'x': rank 1 has not got"), HasSubstr("bytes of GPU memory")));
        run(rank.session(), barrier());
      }
      run(rank.session(), barrier());
      EXPECT_EQ(rank.run(make("again")).front().shape, (Shape{is_allgather ? 9000 : 3000}));
      run(rank.session(), barrier());
    });
  }
}

TEST_F(OnDevices, results_of_ranks_with_different_rows_find_their_memory) {
  run_devices(3, [](DeviceRank& rank) {
    for (int round = 0; round < 3; ++round) {
      std::vector<float> values(rank.number() == round ? 50'000u : 1u, 2.0f);
      const Output result = rank.run(allgather("x", ref(values))).front();
      EXPECT_EQ(result.shape, (Shape{50'002}));
      EXPECT_THAT(std::vector<float>(reinterpret_cast<const float*>(result.data.get()),
                                     reinterpret_cast<const float*>(result.data.get()) + 50'002),
                  Each(2.0f));
    }
  });
}

}  // namespace
}  // namespace hora::testing
