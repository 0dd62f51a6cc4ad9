#include "negotiation/fusion.h"

#include <gmock/gmock.h>

namespace hora {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kThreshold = 1000;

FusionOptions options(std::uint64_t threshold) {
  return {threshold, 4096, {true, false, true}};
}

/// A call of one tensor of this size.
ReadyCall tensor(const std::string& name, std::uint64_t bytes, Signature signature = {},
                 DType dtype = DType::kUInt8) {
  signature.tensors = {{dtype, {static_cast<std::int64_t>(bytes / size_of(dtype))}}};
  return {{{name, 0}, std::move(signature), 0}};
}

/// A call of several tensors.
ReadyCall group(const std::string& name, std::vector<TensorType> tensors, Signature signature = {}) {
  signature.tensors = std::move(tensors);
  return {{{name, 0}, std::move(signature), 0}};
}

/// The names of each batch, joined: "a+b".
std::vector<std::string> batches_of(std::vector<ReadyCall> ready, std::uint64_t threshold = kThreshold) {
  std::vector<std::string> texts;
  for (const Batch& batch : fuse(std::move(ready), options(threshold))) {
    std::string text;
    for (const BatchEntry& entry : batch.entries) text += (text.empty() ? "" : "+") + entry.key.name;
    texts.push_back(text);
  }
  return texts;
}

TEST(Fusion, of_adasum_can_be_switched_off) {
  Signature adasum;
  adasum.reduce = ReduceOp::kAdasum;
  const std::vector<ReadyCall> calls{tensor("a", 1, adasum), tensor("b", 1), tensor("c", 1, adasum),
                                     tensor("d", 1)};
  FusionOptions some = options(kThreshold);
  EXPECT_EQ(fuse(calls, some).size(), 2u);
  some.adasum_alone = true;
  EXPECT_EQ(fuse(calls, some).size(), 3u);
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
  const std::vector<Signature> different{
      {.op = OpKind::kBroadcast},    {.reduce = ReduceOp::kMax}, {.prescale = 0.5}, {.postscale = 0.5},
      {.device = DeviceKind::kCuda}, {.ranks = {0, 1}},          {.root = 1}};
  for (const Signature& signature : different) {
    EXPECT_THAT(
        batches_of({tensor("a", 8), tensor("b", 8, signature), tensor("c", 8), tensor("d", 8, signature)}),
        ElementsAre("a+c", "b+d"));
  }
  for (const DType dtype : {DType::kBool, DType::kInt32, DType::kFloat64}) {
    EXPECT_THAT(
        batches_of({tensor("a", 8), tensor("b", 8, {}, dtype), tensor("c", 8), tensor("d", 8, {}, dtype)}),
        ElementsAre("a+c", "b+d"));
  }
}

TEST(Fusion, only_tensors_with_equally_many_contributors_share_a_batch) {
  std::vector<ReadyCall> ready{tensor("a", 8), tensor("b", 8), tensor("c", 8), tensor("d", 8)};
  for (std::size_t at = 0; at < ready.size(); ++at) ready[at].contributors = at % 2 == 0 ? 5 : 3;
  EXPECT_THAT(batches_of(ready), ElementsAre("a+c", "b+d"));
  EXPECT_EQ(fuse(ready, options(kThreshold)).front().contributors, 5);
  EXPECT_EQ(fuse(ready, options(kThreshold)).back().contributors, 3);
  EXPECT_EQ(fuse(ready, options(0)).back().contributors, 3);
  // As many, but not the same ranks.
  for (std::size_t at = 0; at < ready.size(); ++at) {
    ready[at].contributors = 3;
    ready[at].absent = {at % 2 == 0 ? 1 : 2};
  }
  EXPECT_EQ(fuse(ready, options(kThreshold)).size(), 2u);
}

TEST(Fusion, ops_that_cannot_be_fused_travel_alone) {
  const Signature gather{.op = OpKind::kAllgather};
  EXPECT_THAT(batches_of({tensor("a", 8, gather), tensor("b", 8, gather)}), ElementsAre("a", "b"));
}

TEST(Fusion, batches_keep_the_order_of_their_first_tensors) {
  EXPECT_THAT(batches_of({tensor("a", 600), tensor("b", 8, {}, DType::kInt64), tensor("c", 600),
                          tensor("d", 8, {}, DType::kInt64), tensor("e", 400)}),
              ElementsAre("a", "b+d", "c+e"));
}

TEST(Fusion, every_batch_carries_the_piece_size) {
  for (const Batch& batch : fuse({tensor("a", 8), tensor("big", kThreshold + 1)}, options(kThreshold)))
    EXPECT_EQ(batch.piece_bytes, 4096u);
}

TEST(Fusion, groups_of_one_dtype_share_a_batch_with_single_tensors_up_to_the_threshold) {
  const ReadyCall middle = group("g", {{DType::kUInt8, {300}}, {DType::kUInt8, {2, 100}}});
  EXPECT_THAT(batches_of({tensor("a", 400), middle, tensor("b", 100)}), ElementsAre("a+g+b"));
  EXPECT_THAT(batches_of({tensor("a", 400), middle, tensor("b", 101)}), ElementsAre("a+g", "b"));
  EXPECT_THAT(batches_of({tensor("a", 501), middle, tensor("b", 500)}), ElementsAre("a", "g+b"));
  EXPECT_THAT(batches_of({middle, middle, middle}), ElementsAre("g+g", "g"));
}

TEST(Fusion, groups_share_batches_by_their_dtype) {
  const TensorType number{DType::kInt32, {}};
  EXPECT_THAT(batches_of({tensor("a", 8), group("g", {number, number}), tensor("b", 8), group("h", {number}),
                          tensor("c", 8, {}, DType::kInt32)}),
              ElementsAre("a+b", "g+h+c"));
}

TEST(Fusion, a_group_above_the_threshold_travels_alone_and_does_not_end_the_open_batch) {
  const std::vector<TensorType> large{{DType::kUInt8, {500}}, {DType::kUInt8, {501}}};
  EXPECT_THAT(batches_of({tensor("a", 1), group("big", large), tensor("b", 1)}), ElementsAre("a+b", "big"));
}

TEST(Fusion, a_group_of_several_dtypes_travels_alone_and_does_not_end_the_open_batch) {
  const std::vector<TensorType> mixed{{DType::kUInt8, {1}}, {DType::kInt8, {1}}};
  EXPECT_THAT(batches_of({tensor("a", 1), group("m", mixed), tensor("b", 1), group("n", mixed)}),
              ElementsAre("a+b", "m", "n"));
  const std::vector<TensorType> empty_and_mixed{{DType::kUInt8, {1}}, {DType::kInt8, {0}}};
  EXPECT_THAT(batches_of({tensor("a", 1), group("m", empty_and_mixed), tensor("b", 1)}),
              ElementsAre("a+b", "m"));
}

TEST(Fusion, a_group_without_tensors_travels_alone) {
  EXPECT_THAT(batches_of({tensor("a", 1), group("g", {}), tensor("b", 1), group("h", {})}),
              ElementsAre("a+b", "g", "h"));
  EXPECT_THAT(batches_of({group("g", {}), tensor("a", 1), tensor("b", 1)}), ElementsAre("g", "a+b"));
}

TEST(Fusion, a_group_is_never_taken_apart) {
  const std::vector<TensorType> tensors(5, TensorType{DType::kFloat64, {100}});
  for (const std::uint64_t threshold :
       {std::uint64_t{0}, std::uint64_t{800}, kThreshold, std::uint64_t{1} << 40}) {
    const std::vector<Batch> batches = fuse({group("g", tensors), group("h", tensors)}, options(threshold));
    std::size_t entries = 0;
    for (const Batch& batch : batches) {
      for (const BatchEntry& entry : batch.entries) {
        ++entries;
        EXPECT_EQ(entry.signature->tensors, tensors);
      }
    }
    EXPECT_EQ(entries, 2u);
  }
}

TEST(Fusion, groups_of_ops_that_cannot_be_fused_travel_alone) {
  const Signature gather{.op = OpKind::kAllgather};
  const std::vector<TensorType> rows{{DType::kUInt8, {Signature::kRagged, 2}},
                                     {DType::kUInt8, {Signature::kRagged}}};
  EXPECT_THAT(batches_of({group("g", rows, gather), group("h", rows, gather)}), ElementsAre("g", "h"));
}

}  // namespace
}  // namespace hora
