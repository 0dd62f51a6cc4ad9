// What the fake NCCL does on faults that tests inject, and on mistakes of its caller.

#include <memory>

#include "stand_ins/nccl_ranks.h"

namespace hora::fake_nccl::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Result allreduce(const Rank& rank, const DeviceVector<float>& data) {
  return ncclAllReduce(data.data(), data.data(), data.count(), DataType::kFloat32, RedOp::kSum, rank.comm,
                       rank.stream());
}

void abort(Rank& rank) {
  require(ncclCommAbort(rank.comm));
  rank.comm = nullptr;
}

/// Whether the stream still has work after a while.
bool hangs(const Rank& rank) {
  std::this_thread::sleep_for(milliseconds(5));
  return !rank.gpu.is_idle();
}

TEST_F(FakeNccl, an_operation_that_hangs_ends_with_an_abort) {
  fake_nccl_hang_at(1, 1);
  run_ranks(3, false, [](Rank& rank) {
    const DeviceVector<float> data(1);
    allreduce(rank, data);
    rank.finish();
    allreduce(rank, data);
    require(settled(rank.comm));
    EXPECT_TRUE(hangs(rank));
    abort(rank);
    rank.gpu.finish();
  });
  EXPECT_EQ(fake_nccl_counts().communicators_aborted, 3u);
}

TEST_F(FakeNccl, a_fault_strikes_once) {
  fake_nccl_hang_at(0, 0);
  run_ranks(1, true, [](Rank& rank) {
    const DeviceVector<float> data(1);
    allreduce(rank, data);
    abort(rank);
    rank.gpu.finish();
  });
  run_ranks(1, true, [](Rank& rank) {
    const DeviceVector<float> data(1);
    allreduce(rank, data);
    rank.finish();
  });
}

TEST_F(FakeNccl, a_buffer_may_be_freed_as_soon_as_an_abort_returns) {
  fake_nccl_hang_at(0, 0);
  run_ranks(2, true, [](Rank& rank) {
    auto data = std::make_unique<DeviceVector<float>>(1);
    allreduce(rank, *data);
    abort(rank);
    data.reset();
    rank.gpu.finish();
  });
}

TEST_F(FakeNccl, a_remote_error_shows_at_its_operation_and_refuses_later_ones) {
  fake_nccl_error_at(1, 0);
  run_ranks(2, true, [](Rank& rank) {
    const DeviceVector<float> data(1);
    EXPECT_EQ(allreduce(rank, data), Result::kSuccess);
    if (rank.rank == 1) {
      Result result = Result::kSuccess;
      while (result == Result::kSuccess) ncclCommGetAsyncError(rank.comm, &result);
      EXPECT_EQ(result, Result::kRemoteError);
      EXPECT_EQ(allreduce(rank, data), Result::kRemoteError);
    }
    EXPECT_TRUE(hangs(rank));
    abort(rank);
    rank.gpu.finish();
  });
}

TEST_F(FakeNccl, a_slow_rank_begins_late) {
  fake_nccl_slow(1, 20'000);
  run_ranks(2, true, [](Rank& rank) {
    const DeviceVector<float> data(1);
    const auto begin = steady_clock::now();
    allreduce(rank, data);
    rank.finish();
    // The other's operation may have begun before this rank looked at the clock.
    if (rank.rank == 1) {
      EXPECT_GE(steady_clock::now() - begin, milliseconds(20));
    }
  });
}

TEST_F(FakeNccl, an_abort_blocks_as_long_as_told) {
  Options options;
  options.abort_ms = 20;
  fake_nccl_set_options(&options);
  run_ranks(1, true, [](Rank& rank) {
    const auto begin = steady_clock::now();
    abort(rank);
    EXPECT_GE(steady_clock::now() - begin, milliseconds(20));
  });
}

TEST_F(FakeNccl, an_abort_ends_a_launch_that_has_not_come_to_the_stream) {
  run_ranks(2, false, [](Rank& rank) {
    const DeviceVector<float> data(1);
    allreduce(rank, data);
    abort(rank);
    rank.gpu.finish();
  });
}

/// Mistakes end the process.
class FakeNcclMistakes : public FakeNccl {
 protected:
  FakeNcclMistakes() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// Two ranks that call different things and wait.
void run_two(const std::function<void(Rank&, const DeviceVector<float>&)>& body) {
  run_ranks(2, true, [&](Rank& rank) {
    const DeviceVector<float> data(8);
    body(rank, data);
    rank.finish();
  });
}

TEST_F(FakeNcclMistakes, counts_that_differ) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 ncclAllReduce(data.data(), data.data(), rank.rank == 0 ? 8 : 7, DataType::kFloat32,
                               RedOp::kSum, rank.comm, rank.stream());
               }),
               "ranks [01] and [01] differ: rank . calls allreduce of [78] float32, sum .* as collective 0, "
               "rank . calls allreduce of [78] float32");
}

TEST_F(FakeNcclMistakes, types_that_differ) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 const DataType type = rank.rank == 0 ? DataType::kFloat32 : DataType::kInt32;
                 ncclAllReduce(data.data(), data.data(), 8, type, RedOp::kSum, rank.comm, rank.stream());
               }),
               "differ: .*(float32.*int32|int32.*float32)");
}

TEST_F(FakeNcclMistakes, reductions_that_differ) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 const RedOp op = rank.rank == 0 ? RedOp::kSum : RedOp::kAvg;
                 ncclAllReduce(data.data(), data.data(), 8, DataType::kFloat32, op, rank.comm, rank.stream());
               }),
               "differ: .*(sum.*average|average.*sum)");
}

TEST_F(FakeNcclMistakes, roots_that_differ) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 ncclBroadcast(data.data(), data.data(), 8, DataType::kFloat32, rank.rank, rank.comm,
                               rank.stream());
               }),
               "differ: .*broadcast of 8 float32 from root");
}

TEST_F(FakeNcclMistakes, kinds_that_differ) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 if (rank.rank == 0)
                   allreduce(rank, data);
                 else
                   ncclBroadcast(data.data(), data.data(), 8, DataType::kFloat32, 0, rank.comm,
                                 rank.stream());
               }),
               "differ: .*(allreduce.*broadcast|broadcast.*allreduce)");
}

TEST_F(FakeNcclMistakes, groups_that_differ) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 if (rank.rank == 0) ncclGroupStart();
                 allreduce(rank, data);
                 allreduce(rank, data);
                 if (rank.rank == 0) ncclGroupEnd();
               }),
               "differ: .*1 of [12] in its group.*1 of [12] in its group");
}

TEST_F(FakeNcclMistakes, a_send_and_a_receive_of_different_sizes) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 if (rank.rank == 0)
                   ncclSend(data.data(), 8, DataType::kFloat32, 1, rank.comm, rank.stream());
                 else
                   ncclRecv(data.data(), 7, DataType::kFloat32, 0, rank.comm, rank.stream());
               }),
               "differ: .*(send of 8.*receive of 7|receive of 7.*send of 8)");
}

TEST_F(FakeNcclMistakes, a_collective_against_a_send) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 if (rank.rank == 0)
                   allreduce(rank, data);
                 else
                   ncclSend(data.data(), 8, DataType::kFloat32, 0, rank.comm, rank.stream());
               }),
               "differ: .*(allreduce.*send|send.*allreduce)");
}

TEST_F(FakeNcclMistakes, waiting_for_a_rank_that_has_destroyed_its_communicator) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 if (rank.rank == 0) return;
                 allreduce(rank, data);
               }),
               "rank 1 waits for rank 0 in allreduce of 8 float32.* rank 0 has destroyed");
}

TEST_F(FakeNcclMistakes, launches_from_two_threads) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 allreduce(rank, data);
                 std::thread([&] {
                   fake_cuda::cuCtxPushCurrent_v2(rank.gpu.context());
                   allreduce(rank, data);
                 }).join();
               }),
               "launched on from two threads");
}

TEST_F(FakeNcclMistakes, a_context_of_another_device) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 const Gpu other(5);
                 allreduce(rank, data);
               }),
               "rank . of 2 \\(device .\\) calls allreduce.* current context is of device 5");
}

TEST_F(FakeNcclMistakes, a_stream_of_another_device) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 cuda::Stream stream = nullptr;
                 {
                   const Gpu other(5);
                   stream = other.stream();
                 }
                 ncclAllReduce(data.data(), data.data(), 8, DataType::kFloat32, RedOp::kSum, rank.comm,
                               stream);
               }),
               "the stream is not a living one of the device");
}

TEST_F(FakeNcclMistakes, a_buffer_that_is_too_short) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 ncclAllReduce(data.data(), data.data(), 4096, DataType::kFloat32, RedOp::kSum, rank.comm,
                               rank.stream());
               }),
               "alloc");
}

TEST_F(FakeNcclMistakes, a_buffer_freed_before_the_operation_has_come_to_the_stream) {
  const auto free_too_early = [](Rank& rank) {
    Options options;
    options.max_delay_us = 50'000;
    fake_nccl_set_options(&options);
    allreduce(rank, DeviceVector<float>(8));
    rank.finish();
  };
  EXPECT_DEATH(run_ranks(1, false, free_too_early), "alloc");
}

TEST_F(FakeNcclMistakes, buffers_that_overlap_or_are_not_aligned) {
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 ncclAllReduce(data.data(), data.data() + 1, 4, DataType::kFloat32, RedOp::kSum, rank.comm,
                               rank.stream());
               }),
               "buffers overlap");
  EXPECT_DEATH(run_two([](Rank& rank, const DeviceVector<float>& data) {
                 ncclAllReduce(data.data() + 1, data.data() + 1, 2, DataType::kFloat64, RedOp::kSum,
                               rank.comm, rank.stream());
               }),
               "not aligned");
}

TEST_F(FakeNcclMistakes, a_handle_after_its_end) {
  EXPECT_DEATH(run_ranks(1, true,
                         [](Rank& rank) {
                           ncclCommDestroy(rank.comm);
                           ncclCommAbort(rank.comm);
                         }),
               "ncclCommAbort: the communicator was destroyed or aborted");
}

TEST_F(FakeNcclMistakes, destroying_a_communicator_whose_work_hangs) {
  const auto hang_and_destroy = [] {
    Options options;
    options.destroy_timeout_ms = 20;
    fake_nccl_set_options(&options);
    fake_nccl_hang_at(0, 0);
    run_ranks(1, true, [](Rank& rank) {
      const DeviceVector<float> data(1);
      allreduce(rank, data);
      ncclCommDestroy(rank.comm);
    });
  };
  EXPECT_DEATH(hang_and_destroy(), "ncclCommDestroy: rank 0 of 1 .* has work that does not end");
}

TEST_F(FakeNccl, rules_can_be_switched_off) {
  Options options;
  options.check_rules = false;
  fake_nccl_set_options(&options);
  run_ranks(1, true, [](Rank& rank) {
    const DeviceVector<float> data(1);
    allreduce(rank, data);
    std::thread([&] {
      fake_cuda::cuCtxPushCurrent_v2(rank.gpu.context());
      EXPECT_EQ(allreduce(rank, data), Result::kSuccess);
    }).join();
    rank.finish();
  });
}

}  // namespace
}  // namespace hora::fake_nccl::testing
