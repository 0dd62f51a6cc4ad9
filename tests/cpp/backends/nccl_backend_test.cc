#include "backends/nccl/nccl_backend.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <random>

#include "stand_ins/fake_cuda.h"
#include "stand_ins/fake_nccl.h"
#include "support/calls.h"
#include "support/device.h"
#include "support/run_ranks.h"

namespace hora::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr auto kSoon = 20s;

/// A rank with a device: tensors there, and calls on them.
class Rank {
 public:
  explicit Rank(Session& session)
      : session_(session), device_(session.topology().rank()), size_(session.topology().size()) {}

  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] const TestDevice& device() const { return device_; }

  /// A call whose tensors are vectors of this rank, begun.
  struct Begun {
    std::unique_ptr<CallOnDevice> on_device;
    HandlePtr handle;
  };
  [[nodiscard]] Begun begin(Call call) {
    auto on_device =
        std::make_unique<CallOnDevice>(device_, std::move(call), session_.topology().rank(), size_);
    HandlePtr handle = session_.submit(on_device->call());
    return {std::move(on_device), std::move(handle)};
  }
  std::vector<Output> finish(Begun& begun) {
    wait(session_, begun.handle);
    return begun.on_device->bring_back(session_, *begun.handle);
  }
  std::vector<Output> run(Call call) {
    Begun begun = begin(std::move(call));
    return finish(begun);
  }
  /// What goes wrong, or "".
  std::string error(Call call) {
    try {
      run(std::move(call));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  Session& session_;
  TestDevice device_;
  const int size_;
};

void run_devices(int size, const std::function<void(Rank&)>& body, const RunOptions& options = {}) {
  run_ranks(
      size,
      [&](Session& session) {
        Rank rank(session);
        body(rank);
      },
      options);
}

/// Keeps a stream from going on until it is opened.
class Gate {
 public:
  void close(const TestDevice& device) {
    ASSERT_EQ(fake_cuda::fake_cuda_enqueue(device.stream(), &Gate::may_pass, this), cuda::Result::kSuccess);
  }
  void open() { is_open_ = true; }

 private:
  static bool may_pass(void* self) { return static_cast<Gate*>(self)->is_open_; }

  std::atomic<bool> is_open_ = false;
};

class OnDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_nccl::fake_nccl_reset();
    const fake_cuda::Options usual;
    fake_cuda::fake_cuda_set_options(&usual);
  }
};

TEST_F(OnDevices, sums_over_all_ranks) {
  for (const int size : {1, 2, 3, 4}) {
    run_devices(size, [&](Rank& rank) {
      for (const std::size_t length : {0u, 1u, 5u, 100'000u}) {
        std::vector<float> values(length, static_cast<float>(rank.session().topology().rank() + 1));
        rank.run(allreduce("x", ref(values)));
        EXPECT_THAT(values, Each(static_cast<float>(size * (size + 1) / 2)));
      }
    });
  }
}

TEST_F(OnDevices, the_wait_ends_when_the_batch_is_launched_and_results_follow_the_tensors) {
  run_devices(2, [](Rank& rank) {
    std::vector<float> warm(1, 1.0f);
    rank.run(allreduce("warm", ref(warm)));
    std::vector<float> values(1000, 1.0f);
    Gate gate;
    gate.close(rank.device());  // the program's kernels take their time
    Rank::Begun begun = rank.begin(allreduce("x", ref(values)));
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
  run_devices(2, [](Rank& rank) {
    std::vector<std::vector<float>> values(20, std::vector<float>(300, 1.0f));
    const auto round = [&] {
      std::vector<Rank::Begun> all;
      for (std::size_t at = 0; at < values.size(); ++at)
        all.push_back(rank.begin(allreduce(fmt::format("x{}", at), ref(values[at]))));
      for (const Rank::Begun& each : all) {
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
  run_devices(kSize, [](Rank& rank) {
    std::mt19937 random(static_cast<unsigned>(rank.session().topology().rank()));
    std::vector<std::vector<float>> values(40);
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int round = 0; round < 3; ++round) {
      std::ranges::shuffle(order, random);
      std::vector<Rank::Begun> all(values.size());
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
  run_devices(2, [](Rank& rank) {
    std::vector<float> warm(1, 1.0f);
    rank.run(allreduce("warm", ref(warm)));
    run(rank.session(), barrier());
    const std::uint64_t before = rank.session().counters().batches;
    Gate gate;
    gate.close(rank.device());
    std::vector<std::vector<float>> values(10, std::vector<float>(10, 1.0f));
    std::vector<Rank::Begun> all;
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
    if (rank.session().topology().rank() == 1) {
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
  run_devices(2, [](Rank& rank) {
    std::vector<float> warm(1, 1.0f);
    rank.run(allreduce("warm", ref(warm)));
    run(rank.session(), barrier());
    Gate gate;
    gate.close(rank.device());
    std::vector<std::vector<float>> values(4, std::vector<float>(10, 1.0f));
    std::vector<Rank::Begun> all;
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
    for (Rank::Begun& each : all) rank.finish(each);
    run(rank.session(), barrier());
  });
}

TEST_F(OnDevices, process_sets_have_their_own_communicators) {
  run_devices(4, [](Rank& rank) {
    const int own = rank.session().topology().rank();
    const std::int32_t odd = add_set(rank.session(), {1, 3});
    const std::int32_t low = add_set(rank.session(), {0, 1, 2});
    for (int round = 0; round < 5; ++round) {
      std::vector<float> all(7, 1.0f);
      std::vector<float> some(9, static_cast<float>(own));
      std::vector<float> others(11, static_cast<float>(own));
      std::vector<Rank::Begun> begun;
      begun.push_back(rank.begin(allreduce("all", ref(all))));
      if (own % 2 == 1) begun.push_back(rank.begin(on(odd, allreduce("some", ref(some)))));
      if (own < 3) begun.push_back(rank.begin(on(low, allreduce("others", ref(others)))));
      for (Rank::Begun& each : begun) rank.finish(each);
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
  run_devices(3, [](Rank& rank) {
    const int own = rank.session().topology().rank();
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

TEST_F(OnDevices, adasum_is_refused) {
  run_devices(2, [](Rank& rank) {
    std::vector<float> values(4, 1.0f);
    EXPECT_THAT(rank.error(allreduce("x", ref(values), ReduceOp::kAdasum)),
                HasSubstr("op Adasum is not available on GPUs"));
    rank.run(allreduce("x", ref(values)));
    EXPECT_THAT(values, Each(2.0f));
  });
}

TEST_F(OnDevices, a_tensor_in_host_memory_on_one_rank_is_a_mismatch_on_all) {
  run_devices(2, [](Rank& rank) {
    std::vector<float> values(4, 1.0f);
    const std::string error = rank.session().topology().rank() == 0
                                  ? rank.error(allreduce("x", ref(values)))
                                  : error_of(rank.session(), allreduce("x", ref(values)));
    EXPECT_THAT(error, AllOf(HasSubstr("rank 0 sent float32[4] on cuda"),
                             HasSubstr("rank 1 sent float32[4] on host")));
    rank.run(allreduce("x", ref(values)));
    EXPECT_THAT(values, Each(2.0f));
  });
}

TEST_F(OnDevices, two_devices_in_one_rank_are_refused) {
  run_devices(1, [](Rank& rank) {
    std::vector<float> values(4, 1.0f);
    rank.run(allreduce("x", ref(values)));
    const TestDevice other(5);
    const CallOnDevice call(other, allreduce("y", ref(values)), 0, 1);
    EXPECT_THAT(refusal_of(rank.session(), call.call()).text,
                HasSubstr("GPU 5, but this rank has used GPU 0"));
  });
}

TEST_F(OnDevices, what_is_missing_is_named_with_the_places_where_it_was_looked_for) {
  RunOptions without_driver;
  without_driver.settings.device.cuda_library = "/nowhere/libcuda.so.1";
  RunOptions without_nccl;
  without_nccl.settings.device.nccl_library = "/nowhere/libnccl.so.2";
  for (const auto& [options, what, place] :
       {std::tuple(without_driver, "the CUDA driver was not found", "/nowhere/libcuda.so.1"),
        std::tuple(without_nccl, "NCCL was not found", "/nowhere/libnccl.so.2")}) {
    run_ranks(
        2,
        [&](Session& session) {
          std::vector<float> values(4, 1.0f);
          Call call = allreduce("x", ref(values));
          call.tensors.front().input.device = DeviceKind::kCuda;
          call.place = {0, 0};
          const Refusal refusal = refusal_of(session, call);
          EXPECT_EQ(refusal.kind, ErrorKind::kInvalidArgument);
          EXPECT_THAT(refusal.text, AllOf(HasSubstr(what), HasSubstr(place)));
          run(session, allreduce("y", ref(values)));  // the session goes on
          EXPECT_THAT(values, Each(2.0f));
        },
        options);
  }
}

TEST_F(OnDevices, a_call_while_the_stream_captures_a_graph_is_refused) {
  run_devices(1, [](Rank& rank) {
    std::vector<float> values(4, 1.0f);
    const CallOnDevice call(rank.device(), allreduce("x", ref(values)), 0, 1);
    rank.device().synchronize();
    ASSERT_EQ(fake_cuda::fake_cuda_set_capturing(rank.device().stream(), true), cuda::Result::kSuccess);
    EXPECT_THAT(refusal_of(rank.session(), call.call()).text, HasSubstr("captures a CUDA graph"));
    EXPECT_EQ(fake_cuda::fake_cuda_set_capturing(rank.device().stream(), false), cuda::Result::kSuccess);
  });
}

TEST_F(OnDevices, the_program_may_capture_a_graph_while_batches_are_under_way) {
  run_devices(2, [](Rank& rank) {
    std::vector<float> values(4, 1.0f);
    rank.run(allreduce("warm", ref(values)));
    values.assign(4, 1.0f);
    Rank::Begun begun = rank.begin(allreduce("x", ref(values)));
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

TEST_F(OnDevices, a_device_that_does_not_come_to_an_end_fails_the_job_with_the_name_of_the_tensor) {
  RunOptions options;
  options.settings.device.timeout = 1s;
  fake_nccl::fake_nccl_hang_at(1, 1);
  const TimePoint start = Clock::now();
  run_devices(
      3,
      [](Rank& rank) {
        std::vector<float> values(4, 1.0f);
        rank.run(allreduce("good", ref(values)));
        Rank::Begun begun = rank.begin(allreduce("bad", ref(values)));
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
      [](Rank& rank) {
        std::vector<float> values(4, 1.0f);
        rank.run(allreduce("good", ref(values)));
        std::string failure = rank.error(allreduce("bad", ref(values)));
        while (failure.empty()) failure = error_of(rank.session(), barrier());
        EXPECT_NE(failure, "");
      },
      options);
}

TEST_F(OnDevices, little_memory_makes_the_staging_smaller_on_all_ranks) {
  fake_nccl::fake_nccl_fail_allocations(3);
  run_devices(3, [](Rank& rank) {
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
      [](Rank& rank) {
        std::vector<float> values(10, 1.0f);
        rank.run(allreduce("x", ref(values)));
      },
      options);
  EXPECT_EQ(asked, 1);
}

TEST_F(OnDevices, numbers_may_travel_as_halves) {
  run_devices(4, [](Rank& rank) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
      std::vector<std::vector<float>> values(3, std::vector<float>(1000, 0.1f));
      std::vector<std::int32_t> integers(10, 1);
      std::vector<Rank::Begun> all;
      for (std::size_t at = 0; at < values.size(); ++at) {
        Call call = allreduce(fmt::format("x{}", at), ref(values[at]), op);
        call.wire = DType::kFloat16;
        all.push_back(rank.begin(call));
      }
      Call as_they_are = allreduce("integers", ref(integers));
      as_they_are.wire = DType::kFloat16;
      all.push_back(rank.begin(as_they_are));
      for (Rank::Begun& each : all) rank.finish(each);
      EXPECT_THAT(values, Each(Each(FloatNear(op == ReduceOp::kSum ? 0.4f : 0.1f, 1e-3f))));
      EXPECT_THAT(integers, Each(4));
    }
  });
  std::vector<fake_nccl::Call> calls(fake_nccl::fake_nccl_log(nullptr, 0));
  fake_nccl::fake_nccl_log(calls.data(), calls.size());
  for (const fake_nccl::Call& call : calls)
    EXPECT_TRUE(call.type == nccl::DataType::kFloat16 || call.type == nccl::DataType::kInt32);
}

TEST_F(OnDevices, what_numbers_travel_as_is_agreed) {
  run_devices(2, [](Rank& rank) {
    std::vector<float> values(4, 1.0f);
    Call call = allreduce("x", ref(values));
    if (rank.session().topology().rank() == 1) call.wire = DType::kBFloat16;
    EXPECT_THAT(rank.error(call), HasSubstr("travelling as bfloat16"));
    call = allreduce("y", ref(values));
    call.wire = DType::kFloat16;
    EXPECT_THAT(refusal_of(rank.session(), call).text, HasSubstr("only numbers on GPUs"));
  });
}

TEST_F(OnDevices, with_the_setting_a_wait_ends_when_the_device_is_through) {
  RunOptions options;
  options.settings.device.waits_on_host = true;
  run_devices(
      2,
      [](Rank& rank) {
        std::vector<float> values(4, 1.0f);
        Rank::Begun begun = rank.begin(allreduce("x", ref(values)));
        wait(rank.session(), begun.handle);
        rank.session().order_before(*begun.handle, rank.device().place().stream);
        EXPECT_TRUE(begun.handle->work()->is_complete());
        rank.finish(begun);
        run(rank.session(), barrier());
      },
      options);
}

TEST_F(OnDevices, results_that_the_core_allocates_are_used_again) {
  run_devices(2, [](Rank& rank) {
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

TEST_F(OnDevices, streams_in_any_order_give_the_same_results) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const fake_cuda::Options options{.seed = seed};
    fake_cuda::fake_cuda_set_options(&options);
    run_devices(3, [](Rank& rank) {
      std::vector<std::vector<float>> values(10, std::vector<float>(50, 1.0f));
      std::vector<Rank::Begun> all;
      for (std::size_t at = 0; at < values.size(); ++at)
        all.push_back(rank.begin(allreduce(fmt::format("x{}", at), ref(values[at]))));
      for (Rank::Begun& each : all) rank.finish(each);
      EXPECT_THAT(values, Each(Each(3.0f)));
      run(rank.session(), barrier());
    });
  }
}

}  // namespace
}  // namespace hora::testing
