#include <gmock/gmock.h>

#include "backends/nccl/nccl_backend.h"
#include "stand_ins/fake_cuda.h"
#include "support/calls.h"
#include "support/device_ranks.h"
#include "support/sentence.h"

namespace hora::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST_F(OnDevices, adasum_is_refused) {
  run_devices(2, [](DeviceRank& rank) {
    std::vector<float> values(4, 1.0f);
    EXPECT_THAT(rank.error(allreduce("x", ref(values), ReduceOp::kAdasum)),
                HasSubstr("op Adasum is not available on GPUs"));
    rank.run(allreduce("x", ref(values)));
    EXPECT_THAT(values, Each(2.0f));
  });
}

TEST_F(OnDevices, a_tensor_in_host_memory_on_one_rank_is_a_mismatch_on_all) {
  run_devices(2, [](DeviceRank& rank) {
    std::vector<float> values(4, 1.0f);
    const std::string error = rank.number() == 0 ? rank.error(allreduce("x", ref(values)))
                                                 : error_of(rank.session(), allreduce("x", ref(values)));
    EXPECT_EQ(error, with_table("allreduce 'x': ranks differ in device",
                                {{"ranks", "device"}, {"0", "cuda"}, {"1", "host"}}));
    rank.run(allreduce("x", ref(values)));
    EXPECT_THAT(values, Each(2.0f));
  });
}

TEST_F(OnDevices, two_devices_in_one_rank_are_refused) {
  run_devices(1, [](DeviceRank& rank) {
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
        [&, what = what, place = place](Session& session) {
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
  run_devices(1, [](DeviceRank& rank) {
    std::vector<float> values(4, 1.0f);
    const CallOnDevice call(rank.device(), allreduce("x", ref(values)), 0, 1);
    rank.device().synchronize();
    ASSERT_EQ(fake_cuda::fake_cuda_set_capturing(rank.device().stream(), true), cuda::Result::kSuccess);
    EXPECT_THAT(refusal_of(rank.session(), call.call()).text, HasSubstr("captures a CUDA graph"));
    EXPECT_EQ(fake_cuda::fake_cuda_set_capturing(rank.device().stream(), false), cuda::Result::kSuccess);
  });
}

TEST_F(OnDevices, what_numbers_travel_as_is_agreed) {
  run_devices(2, [](DeviceRank& rank) {
    std::vector<float> values(4, 1.0f);
    Call call = allreduce("x", ref(values));
    if (rank.number() == 1) call.wire = DType::kBFloat16;
    EXPECT_THAT(rank.error(call), HasSubstr("\n  1      bfloat16"));
    call = allreduce("y", ref(values));
    call.wire = DType::kFloat16;
    EXPECT_THAT(refusal_of(rank.session(), call).text, HasSubstr("only numbers on GPUs"));
  });
}

}  // namespace
}  // namespace hora::testing
