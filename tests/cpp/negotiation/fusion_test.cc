#include "negotiation/fusion.h"

#include <gmock/gmock.h>

namespace hora {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kThreshold = 1000;

FusionOptions options(std::uint64_t threshold) {
  return {threshold, 4096, {true, false, true, false}};
}

ReadyTensor tensor(const std::string& name, std::uint64_t bytes, Signature signature = {}) {
  signature.shape = {static_cast<std::int64_t>(bytes)};
  return {{{name, 0}, signature, 0}, bytes};
}

/// The names of each batch, joined: "a+b".
std::vector<std::string> batches_of(std::vector<ReadyTensor> ready, std::uint64_t threshold = kThreshold) {
  std::vector<std::string> texts;
  for (const Batch& batch : fuse(std::move(ready), options(threshold))) {
    std::string text;
    for (const BatchEntry& entry : batch.entries) text += (text.empty() ? "" : "+") + entry.key.name;
    texts.push_back(text);
  }
  return texts;
}

TEST(Fusion, nothing_ready_makes_no_batch) {
  EXPECT_TRUE(fuse({}, options(kThreshold)).empty());
}

TEST(Fusion, tensors_share_a_batch_up_to_the_threshold) {
  EXPECT_THAT(batches_of({tensor("a", 400), tensor("b", 300), tensor("c", 300)}), ElementsAre("a+b+c"));
  EXPECT_THAT(batches_of({tensor("a", 400), tensor("b", 300), tensor("c", 301)}), ElementsAre("a+b", "c"));
}

TEST(Fusion, sizes_around_the_threshold) {
  EXPECT_THAT(batches_of({tensor("a", kThreshold - 1), tensor("b", 1)}), ElementsAre("a+b"));
  EXPECT_THAT(batches_of({tensor("a", kThreshold - 1), tensor("b", 2)}), ElementsAre("a", "b"));
  EXPECT_THAT(batches_of({tensor("a", kThreshold), tensor("b", 1)}), ElementsAre("a", "b"));
  EXPECT_THAT(batches_of({tensor("a", kThreshold), tensor("b", 0)}), ElementsAre("a+b"));
  EXPECT_THAT(batches_of({tensor("a", kThreshold + 1), tensor("b", 0)}), ElementsAre("a", "b"));
}

TEST(Fusion, a_tensor_above_the_threshold_travels_alone_and_does_not_end_the_open_batch) {
  EXPECT_THAT(batches_of({tensor("a", 1), tensor("big", kThreshold + 1), tensor("b", 1)}),
              ElementsAre("a+b", "big"));
}

TEST(Fusion, threshold_0_sends_each_tensor_alone) {
  EXPECT_THAT(batches_of({tensor("a", 1), tensor("b", 1)}, 0), ElementsAre("a", "b"));
}

TEST(Fusion, threshold_0_sends_empty_tensors_alone_too) {
  EXPECT_THAT(batches_of({tensor("a", 0), tensor("b", 0), tensor("c", 4)}, 0), ElementsAre("a", "b", "c"));
}

TEST(Fusion, only_tensors_that_differ_in_nothing_but_name_and_shape_share_a_batch) {
  const std::vector<Signature> different{{.dtype = DType::kFloat64}, {.op = OpKind::kBroadcast},
                                         {.reduce = ReduceOp::kMax}, {.prescale = 0.5},
                                         {.postscale = 0.5},         {.device = DeviceKind::kCuda},
                                         {.process_set = 1},         {.root = 1}};
  for (const Signature& signature : different) {
    EXPECT_THAT(
        batches_of({tensor("a", 8), tensor("b", 8, signature), tensor("c", 8), tensor("d", 8, signature)}),
        ElementsAre("a+c", "b+d"));
  }
}

TEST(Fusion, ops_that_cannot_be_fused_travel_alone) {
  const Signature gather{.op = OpKind::kAllgather};
  EXPECT_THAT(batches_of({tensor("a", 8, gather), tensor("b", 8, gather)}), ElementsAre("a", "b"));
}

TEST(Fusion, batches_keep_the_order_of_their_first_tensors) {
  const Signature other{.dtype = DType::kInt64};
  EXPECT_THAT(batches_of({tensor("a", 600), tensor("b", 8, other), tensor("c", 600), tensor("d", 8, other),
                          tensor("e", 400)}),
              ElementsAre("a", "b+d", "c+e"));
}

TEST(Fusion, every_batch_carries_the_piece_size) {
  for (const Batch& batch : fuse({tensor("a", 8), tensor("big", kThreshold + 1)}, options(kThreshold)))
    EXPECT_EQ(batch.piece_bytes, 4096u);
}

}  // namespace
}  // namespace hora
