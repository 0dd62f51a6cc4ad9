#include "negotiation/mismatch.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

std::string text_of(std::vector<Variant> variants, const Key& key = {"x", 0}) {
  return describe_mismatch(key, variants);
}

TEST(Mismatch, names_dtype_and_shape_with_the_rare_ranks_first) {
  EXPECT_EQ(text_of({{{.dtype = DType::kFloat32, .shape = {512, 512}}, RankSet({0, 1, 2, 4, 5, 6, 7})},
                     {{.dtype = DType::kFloat16, .shape = {512, 512}}, RankSet({3})}},
                    {"layer4.weight", 0}),
            "allreduce 'layer4.weight': rank 3 sent float16[512,512], ranks 0-2,4-7 sent float32[512,512]");
}

TEST(Mismatch, names_shapes_that_differ) {
  EXPECT_EQ(text_of({{{.shape = {2, 3}}, RankSet({0})}, {{.shape = {3, 2}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent float32[2,3], rank 1 sent float32[3,2]");
}

TEST(Mismatch, of_equally_many_ranks_the_lowest_come_first) {
  EXPECT_EQ(text_of({{{.shape = {2}}, RankSet({1, 3})}, {{.shape = {4}}, RankSet({0, 2})}}),
            "allreduce 'x': ranks 0,2 sent float32[4], ranks 1,3 sent float32[2]");
}

TEST(Mismatch, names_the_ops_that_differ) {
  EXPECT_EQ(
      text_of({{{.shape = {2}}, RankSet({0})}, {{.op = OpKind::kBroadcast, .shape = {2}}, RankSet({1, 2})}}),
      "tensor 'x': rank 0 sent allreduce float32[2], ranks 1,2 sent broadcast float32[2]");
}

TEST(Mismatch, a_barrier_has_no_tensor) {
  EXPECT_EQ(text_of({{{.shape = {2}}, RankSet({0})}, {{.op = OpKind::kBarrier}, RankSet({1})}}),
            "tensor 'x': rank 0 sent allreduce float32[2], rank 1 sent barrier no tensor");
}

TEST(Mismatch, names_reduce_ops_that_differ) {
  EXPECT_EQ(text_of({{{.reduce = ReduceOp::kSum, .shape = {2}}, RankSet({0})},
                     {{.reduce = ReduceOp::kAverage, .shape = {2}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent float32[2] op Sum, rank 1 sent float32[2] op Average");
}

TEST(Mismatch, names_roots_that_differ) {
  EXPECT_EQ(text_of({{{.op = OpKind::kBroadcast, .root = 0, .shape = {2}}, RankSet({0, 1})},
                     {{.op = OpKind::kBroadcast, .root = 1, .shape = {2}}, RankSet({2})}}),
            "broadcast 'x': rank 2 sent float32[2] root_rank 1, ranks 0,1 sent float32[2] root_rank 0");
}

TEST(Mismatch, names_scale_factors_that_differ) {
  EXPECT_EQ(
      text_of({{{.prescale = 0.5, .postscale = 2, .shape = {2}}, RankSet({0})},
               {{.prescale = 1, .postscale = 2, .shape = {2}}, RankSet({1})}}),
      "allreduce 'x': rank 0 sent float32[2] prescale_factor 0.5, rank 1 sent float32[2] prescale_factor 1");
  EXPECT_EQ(text_of({{{.postscale = 0.25, .shape = {2}}, RankSet({0})},
                     {{.postscale = 1, .shape = {2}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent float32[2] postscale_factor 0.25, rank 1 sent float32[2] "
            "postscale_factor 1");
}

TEST(Mismatch, names_devices_that_differ) {
  EXPECT_EQ(text_of({{{.device = DeviceKind::kHost, .shape = {2}}, RankSet({0})},
                     {{.device = DeviceKind::kCuda, .shape = {2}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent float32[2] on host, rank 1 sent float32[2] on cuda");
}

TEST(Mismatch, names_everything_that_differs_at_once) {
  EXPECT_EQ(text_of({{{.dtype = DType::kInt64, .reduce = ReduceOp::kMin, .shape = {}}, RankSet({0})},
                     {{.dtype = DType::kBool, .reduce = ReduceOp::kMax, .shape = {0}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent int64[] op Min, rank 1 sent bool[0] op Max");
}

TEST(Mismatch, a_dimension_that_may_differ_is_a_star) {
  EXPECT_EQ(text_of({{{.op = OpKind::kAllgather, .shape = {Signature::kRagged, 4}}, RankSet({0, 1})},
                     {{.op = OpKind::kAllgather, .shape = {Signature::kRagged, 3}}, RankSet({2})}}),
            "allgather 'x': rank 2 sent float32[*,3], ranks 0,1 sent float32[*,4]");
}

TEST(Mismatch, a_refusal_gives_its_reason) {
  EXPECT_EQ(text_of({{{.refusal = "dtype complex64 is not supported"}, RankSet({1})},
                     {{.shape = {2}}, RankSet({0, 2, 3})}}),
            "allreduce 'x': rank 1 refused the call (dtype complex64 is not supported), ranks 0,2,3 sent "
            "float32[2]");
}

TEST(Mismatch, a_refusal_does_not_count_as_a_difference_of_the_others) {
  EXPECT_EQ(text_of({{{.root = 0, .prescale = 1, .refusal = "no"}, RankSet({1})},
                     {{.root = 3, .prescale = 2, .shape = {2}}, RankSet({0})}}),
            "allreduce 'x': rank 0 sent float32[2], rank 1 refused the call (no)");
}

TEST(Mismatch, three_ways_are_told_apart) {
  EXPECT_EQ(text_of({{{.shape = {1}}, RankSet({0, 5})},
                     {{.shape = {2}}, RankSet({3})},
                     {{.shape = {3}}, RankSet({1, 2, 4})}}),
            "allreduce 'x': rank 3 sent float32[2], ranks 0,5 sent float32[1], ranks 1,2,4 sent float32[3]");
}

TEST(Mismatch, an_unnamed_call_is_named_by_its_number) {
  EXPECT_EQ(text_of({{{.shape = {1}}, RankSet({0})}, {{.shape = {2}}, RankSet({1})}}, {"", 4}),
            "allreduce unnamed call 4: rank 0 sent float32[1], rank 1 sent float32[2]");
}

}  // namespace
}  // namespace hora
