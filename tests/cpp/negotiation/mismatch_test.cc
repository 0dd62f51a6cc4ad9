#include "negotiation/mismatch.h"

#include <gmock/gmock.h>

namespace hora {
namespace {

constexpr DType kFloat = DType::kFloat32;

std::string text_of(std::vector<Variant> variants, const Key& key = {"x", 0}) {
  return describe_mismatch(key, variants);
}

TEST(Mismatch, names_dtype_and_shape_with_the_rare_ranks_first) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {512, 512}}}}, RankSet({0, 1, 2, 4, 5, 6, 7})},
                     {{.tensors = {{DType::kFloat16, {512, 512}}}}, RankSet({3})}},
                    {"layer4.weight", 0}),
            "allreduce 'layer4.weight': rank 3 sent float16[512,512], ranks 0-2,4-7 sent float32[512,512]");
}

TEST(Mismatch, names_shapes_that_differ) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {2, 3}}}}, RankSet({0})},
                     {{.tensors = {{kFloat, {3, 2}}}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent float32[2,3], rank 1 sent float32[3,2]");
}

TEST(Mismatch, of_equally_many_ranks_the_lowest_come_first) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {2}}}}, RankSet({1, 3})},
                     {{.tensors = {{kFloat, {4}}}}, RankSet({0, 2})}}),
            "allreduce 'x': ranks 0,2 sent float32[4], ranks 1,3 sent float32[2]");
}

TEST(Mismatch, names_the_ops_that_differ) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {2}}}}, RankSet({0})},
                     {{.op = OpKind::kBroadcast, .tensors = {{kFloat, {2}}}}, RankSet({1, 2})}}),
            "tensor 'x': rank 0 sent allreduce float32[2], ranks 1,2 sent broadcast float32[2]");
}

TEST(Mismatch, a_barrier_has_no_tensor) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {2}}}}, RankSet({0})}, {{.op = OpKind::kBarrier}, RankSet({1})}}),
            "tensor 'x': rank 0 sent allreduce float32[2], rank 1 sent barrier no tensor");
}

TEST(Mismatch, names_the_ranks_of_process_sets_that_differ) {
  EXPECT_EQ(text_of({{{.op = OpKind::kAddProcessSet, .ranks = {0, 1}}, RankSet({0, 2})},
                     {{.op = OpKind::kAddProcessSet, .ranks = {0, 1, 2}}, RankSet({1})}},
                    {"", 3}),
            "add_process_set unnamed call 3: rank 1 sent the ranks 0-2, ranks 0,2 sent the ranks 0,1");
}

TEST(Mismatch, an_allreduce_and_a_change_of_process_sets_say_what_each_is) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {2}}}}, RankSet({0})},
                     {{.op = OpKind::kRemoveProcessSet, .ranks = {0, 1}}, RankSet({1})}}),
            "tensor 'x': rank 0 sent allreduce float32[2], rank 1 sent remove_process_set the ranks 0,1");
}

TEST(Mismatch, names_reduce_ops_that_differ) {
  EXPECT_EQ(text_of({{{.reduce = ReduceOp::kSum, .tensors = {{kFloat, {2}}}}, RankSet({0})},
                     {{.reduce = ReduceOp::kAverage, .tensors = {{kFloat, {2}}}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent float32[2] op Sum, rank 1 sent float32[2] op Average");
}

TEST(Mismatch, names_roots_that_differ) {
  EXPECT_EQ(text_of({{{.op = OpKind::kBroadcast, .root = 0, .tensors = {{kFloat, {2}}}}, RankSet({0, 1})},
                     {{.op = OpKind::kBroadcast, .root = 1, .tensors = {{kFloat, {2}}}}, RankSet({2})}}),
            "broadcast 'x': rank 2 sent float32[2] root_rank 1, ranks 0,1 sent float32[2] root_rank 0");
}

TEST(Mismatch, names_scale_factors_that_differ) {
  EXPECT_EQ(
      text_of({{{.prescale = 0.5, .postscale = 2, .tensors = {{kFloat, {2}}}}, RankSet({0})},
               {{.prescale = 1, .postscale = 2, .tensors = {{kFloat, {2}}}}, RankSet({1})}}),
      "allreduce 'x': rank 0 sent float32[2] prescale_factor 0.5, rank 1 sent float32[2] prescale_factor 1");
  EXPECT_EQ(text_of({{{.postscale = 0.25, .tensors = {{kFloat, {2}}}}, RankSet({0})},
                     {{.postscale = 1, .tensors = {{kFloat, {2}}}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent float32[2] postscale_factor 0.25, rank 1 sent float32[2] "
            "postscale_factor 1");
}

TEST(Mismatch, names_devices_that_differ) {
  EXPECT_EQ(text_of({{{.device = DeviceKind::kHost, .tensors = {{kFloat, {2}}}}, RankSet({0})},
                     {{.device = DeviceKind::kCuda, .tensors = {{kFloat, {2}}}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent float32[2] on host, rank 1 sent float32[2] on cuda");
}

TEST(Mismatch, names_everything_that_differs_at_once) {
  EXPECT_EQ(text_of({{{.reduce = ReduceOp::kMin, .tensors = {{DType::kInt64, {}}}}, RankSet({0})},
                     {{.reduce = ReduceOp::kMax, .tensors = {{DType::kBool, {0}}}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent int64[] op Min, rank 1 sent bool[0] op Max");
}

TEST(Mismatch, a_dimension_that_may_differ_is_a_star) {
  EXPECT_EQ(
      text_of({{{.op = OpKind::kAllgather, .tensors = {{kFloat, {Signature::kRagged, 4}}}}, RankSet({0, 1})},
               {{.op = OpKind::kAllgather, .tensors = {{kFloat, {Signature::kRagged, 3}}}}, RankSet({2})}}),
      "allgather 'x': rank 2 sent float32[*,3], ranks 0,1 sent float32[*,4]");
}

TEST(Mismatch, a_refusal_gives_its_reason) {
  EXPECT_EQ(text_of({{{.refusal = "dtype complex64 is not supported"}, RankSet({1})},
                     {{.tensors = {{kFloat, {2}}}}, RankSet({0, 2, 3})}}),
            "allreduce 'x': rank 1 refused the call (dtype complex64 is not supported), ranks 0,2,3 sent "
            "float32[2]");
}

TEST(Mismatch, a_refusal_does_not_count_as_a_difference_of_the_others) {
  EXPECT_EQ(text_of({{{.root = 0, .prescale = 1, .refusal = "no"}, RankSet({1})},
                     {{.root = 3, .prescale = 2, .tensors = {{kFloat, {2}}}}, RankSet({0})}}),
            "allreduce 'x': rank 0 sent float32[2], rank 1 refused the call (no)");
}

TEST(Mismatch, three_ways_are_told_apart) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {1}}}}, RankSet({0, 5})},
                     {{.tensors = {{kFloat, {2}}}}, RankSet({3})},
                     {{.tensors = {{kFloat, {3}}}}, RankSet({1, 2, 4})}}),
            "allreduce 'x': rank 3 sent float32[2], ranks 0,5 sent float32[1], ranks 1,2,4 sent float32[3]");
}

TEST(Mismatch, an_unnamed_call_is_named_by_its_number) {
  EXPECT_EQ(
      text_of({{{.tensors = {{kFloat, {1}}}}, RankSet({0})}, {{.tensors = {{kFloat, {2}}}}, RankSet({1})}},
              {"", 4}),
      "allreduce unnamed call 4: rank 0 sent float32[1], rank 1 sent float32[2]");
}

TEST(Mismatch, of_groups_names_the_first_tensor_that_differs) {
  EXPECT_EQ(
      text_of({{{.tensors = {{kFloat, {1}}, {kFloat, {2}}, {kFloat, {3}}, {kFloat, {4}}, {kFloat, {5}}}},
                RankSet({1})},
               {{.tensors = {{kFloat, {1}}, {kFloat, {2}}, {kFloat, {9, 9}}, {kFloat, {4}}, {kFloat, {6}}}},
                RankSet({0, 2})}}),
      "allreduce 'x': rank 1 sent float32[3] as tensor 2 of 5, ranks 0,2 sent float32[9,9] as tensor 2 of "
      "5");
}

TEST(Mismatch, of_groups_in_a_dtype_or_a_scalar_is_found) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {1}}, {DType::kInt32, {2}}}}, RankSet({0})},
                     {{.tensors = {{kFloat, {1}}, {DType::kInt64, {2}}}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent int32[2] as tensor 1 of 2, rank 1 sent int64[2] as tensor 1 of 2");
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {}}, {kFloat, {2}}}}, RankSet({0})},
                     {{.tensors = {{kFloat, {1}}, {kFloat, {2}}}}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent float32[] as tensor 0 of 2, rank 1 sent float32[1] as tensor 0 of 2");
}

TEST(Mismatch, of_three_groups_names_one_tensor_for_all) {
  // The first two agree about tensor 0 and the last two about tensor 1.
  EXPECT_EQ(
      text_of({{{.tensors = {{kFloat, {1}}, {kFloat, {5}}}}, RankSet({0})},
               {{.tensors = {{kFloat, {1}}, {kFloat, {6}}}}, RankSet({1})},
               {{.tensors = {{kFloat, {2}}, {kFloat, {6}}}}, RankSet({2})}}),
      "allreduce 'x': rank 0 sent float32[1] as tensor 0 of 2, rank 1 sent float32[1] as tensor 0 of 2, "
      "rank 2 sent float32[2] as tensor 0 of 2");
}

TEST(Mismatch, of_groups_of_different_length_names_the_lengths) {
  const std::vector<TensorType> four(4, TensorType{kFloat, {2}});
  const std::vector<TensorType> three(3, TensorType{DType::kInt8, {7}});
  EXPECT_EQ(text_of({{{.tensors = three}, RankSet({0})}, {{.tensors = four}, RankSet({1})}}),
            "allreduce 'x': rank 0 sent 3 tensors, rank 1 sent 4 tensors");
}

TEST(Mismatch, of_a_group_with_one_tensor_or_none_says_what_those_are) {
  const std::vector<TensorType> three(3, TensorType{kFloat, {2}});
  EXPECT_EQ(text_of({{{.tensors = three}, RankSet({0})},
                     {{.tensors = {{kFloat, {2}}}}, RankSet({1})},
                     {{.tensors = {}}, RankSet({2})}}),
            "allreduce 'x': rank 0 sent 3 tensors, rank 1 sent float32[2], rank 2 sent no tensor");
}

TEST(Mismatch, of_a_group_with_a_barrier_or_a_set_says_what_each_is) {
  const std::vector<TensorType> three(3, TensorType{kFloat, {2}});
  EXPECT_EQ(text_of({{{.tensors = three}, RankSet({0})},
                     {{.op = OpKind::kBarrier}, RankSet({1})},
                     {{.op = OpKind::kAddProcessSet, .ranks = {0, 1}}, RankSet({2})}}),
            "tensor 'x': rank 0 sent allreduce 3 tensors, rank 1 sent barrier no tensor, rank 2 sent "
            "add_process_set the ranks 0,1");
}

TEST(Mismatch, of_groups_in_something_else_names_that) {
  const std::vector<TensorType> two{{kFloat, {2}}, {DType::kInt8, {3}}};
  EXPECT_THAT(text_of({{{.reduce = ReduceOp::kSum, .tensors = two}, RankSet({0})},
                       {{.reduce = ReduceOp::kMax, .tensors = two}, RankSet({1})}}),
              testing::MatchesRegex("allreduce 'x': rank 0 sent .* op Sum, rank 1 sent .* op Max"));
}

TEST(Mismatch, a_dimension_of_a_group_that_may_differ_is_a_star) {
  constexpr std::int64_t kAny = Signature::kRagged;
  EXPECT_EQ(
      text_of(
          {{{.op = OpKind::kAllgather, .tensors = {{kFloat, {kAny}}, {kFloat, {kAny, 4}}}}, RankSet({0})},
           {{.op = OpKind::kAllgather, .tensors = {{kFloat, {kAny}}, {kFloat, {kAny, 3}}}}, RankSet({1})}}),
      "allgather 'x': rank 0 sent float32[*,4] as tensor 1 of 2, rank 1 sent float32[*,3] as tensor 1 of 2");
}

TEST(Mismatch, a_refusal_of_a_group_gives_its_reason_and_does_not_hide_how_the_others_differ) {
  EXPECT_EQ(
      text_of({{{.refusal = "no"}, RankSet({1})},
               {{.tensors = {{kFloat, {1}}, {kFloat, {2}}}}, RankSet({0})},
               {{.tensors = {{kFloat, {1}}, {kFloat, {3}}}}, RankSet({2})}}),
      "allreduce 'x': rank 0 sent float32[2] as tensor 1 of 2, rank 1 refused the call (no), rank 2 sent "
      "float32[3] as tensor 1 of 2");
  EXPECT_EQ(text_of({{{.refusal = "no"}, RankSet({1})},
                     {{.tensors = {{kFloat, {1}}, {kFloat, {2}}}}, RankSet({0})},
                     {{.tensors = {{kFloat, {1}}, {kFloat, {2}}, {kFloat, {3}}}}, RankSet({2})}}),
            "allreduce 'x': rank 0 sent 2 tensors, rank 1 refused the call (no), rank 2 sent 3 tensors");
  EXPECT_THAT(text_of({{{.refusal = "no"}, RankSet({1})},
                       {{.tensors = {{kFloat, {1}}, {kFloat, {2}}}}, RankSet({0, 2})}}),
              testing::AllOf(testing::HasSubstr("rank 1 refused the call (no)"),
                             testing::HasSubstr("ranks 0,2 sent ")));
}

TEST(Mismatch, of_refusals_alone_gives_all_reasons) {
  EXPECT_EQ(text_of({{{.refusal = "no"}, RankSet({0})}, {{.refusal = "never"}, RankSet({1})}}),
            "allreduce 'x': rank 0 refused the call (no), rank 1 refused the call (never)");
}

}  // namespace
}  // namespace hora
