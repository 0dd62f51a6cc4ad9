#include "negotiation/mismatch.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace hora {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr DType kFloat = DType::kFloat32;

using Callers = std::map<int, std::string>;

std::string text_of(const std::vector<Variant>& variants, const Callers& callers = {},
                    const Key& key = {"x", 0}) {
  return describe_mismatch(key, variants, callers);
}

/// As many groups of one rank as that.
std::vector<Variant> groups_of_one(int count) {
  std::vector<Variant> groups;
  for (int rank = 0; rank < count; ++rank)
    groups.push_back({{.tensors = {{kFloat, {rank + 1}}}}, RankSet::single(rank)});
  return groups;
}

TEST(Mismatch, says_in_what_ranks_differ_and_shows_the_rare_ranks_first) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {512, 512}}}}, RankSet({0, 1, 2, 4, 5, 6, 7})},
                     {{.tensors = {{DType::kFloat16, {512, 512}}}}, RankSet({3})}},
                    {{3, "train.py:57"}, {0, "train.py:41"}}, {"layer4.weight", 0}),
            "allreduce 'layer4.weight': ranks differ in dtype\n"
            "  ranks    dtype    called at\n"
            "  3        float16  train.py:57\n"
            "  0-2,4-7  float32  train.py:41");
}

TEST(Mismatch, shows_shapes_that_differ) {
  EXPECT_EQ(
      text_of({{{.tensors = {{kFloat, {2, 3}}}}, RankSet({0})}, {{.tensors = {{kFloat, {}}}}, RankSet({1})}}),
      "allreduce 'x': ranks differ in shape\n"
      "  ranks  shape\n"
      "  0      [2,3]\n"
      "  1      []");
}

TEST(Mismatch, of_equally_many_ranks_the_lowest_come_first) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {2}}}}, RankSet({1, 3})},
                     {{.tensors = {{kFloat, {4}}}}, RankSet({0, 2})}}),
            "allreduce 'x': ranks differ in shape\n"
            "  ranks  shape\n"
            "  0,2    [4]\n"
            "  1,3    [2]");
}

TEST(Mismatch, a_place_that_is_not_known_is_left_out) {
  EXPECT_EQ(
      text_of({{{.tensors = {{kFloat, {2}}}}, RankSet({0, 2})}, {{.tensors = {{kFloat, {3}}}}, RankSet({1})}},
              {{0, "train.py:41"}}),
      "allreduce 'x': ranks differ in shape\n"
      "  ranks  shape  called at\n"
      "  1      [3]    -\n"
      "  0,2    [2]    train.py:41");
}

TEST(Mismatch, of_operations_that_differ_only_tensors_are_compared) {
  EXPECT_EQ(
      text_of({{{.reduce = ReduceOp::kMax, .tensors = {{kFloat, {2}}}}, RankSet({0})},
               {{.op = OpKind::kBroadcast, .root = 3, .tensors = {{DType::kInt8, {2}}}}, RankSet({1, 2})}}),
      "tensor 'x': ranks differ in operation, dtype\n"
      "  ranks  operation  dtype\n"
      "  0      allreduce  float32\n"
      "  1,2    broadcast  int8");
}

TEST(Mismatch, a_barrier_has_no_tensor_to_compare) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {2}}}}, RankSet({0})}, {{.op = OpKind::kBarrier}, RankSet({1})}}),
            "tensor 'x': ranks differ in operation\n"
            "  ranks  operation\n"
            "  0      allreduce\n"
            "  1      barrier");
}

TEST(Mismatch, shows_the_ranks_of_process_sets_that_differ) {
  EXPECT_EQ(text_of({{{.op = OpKind::kAddProcessSet, .ranks = {0, 1}}, RankSet({0, 2})},
                     {{.op = OpKind::kAddProcessSet, .ranks = {0, 1, 2}}, RankSet({1})}},
                    {}, {"", 3}),
            "add_process_set unnamed call 3: ranks differ in process set\n"
            "  ranks  process set\n"
            "  1      0-2\n"
            "  0,2    0,1");
}

/// A difference in one argument alone, and how the table names it.
struct Argument {
  std::string name;
  Signature one;
  Signature other;
  std::string shown;
};

void PrintTo(const Argument& argument, std::ostream* out) {
  *out << argument.name;
}

class MismatchOfArguments : public ::testing::TestWithParam<Argument> {};

INSTANTIATE_TEST_SUITE_P(
    Of, MismatchOfArguments,
    ::testing::Values(
        Argument{"reduce_op",
                 {.reduce = ReduceOp::kSum},
                 {.reduce = ReduceOp::kAverage},
                 "op\n  ranks  op\n  0      Sum\n  1      Average"},
        Argument{"root", {.root = 0}, {.root = 7}, "root_rank\n  ranks  root_rank\n  0      0\n  1      7"},
        Argument{"prescale",
                 {.prescale = 0.5},
                 {.prescale = 1},
                 "prescale_factor\n  ranks  prescale_factor\n  0      0.5\n  1      1"},
        Argument{"postscale",
                 {.postscale = 0.25},
                 {.postscale = 0.1},
                 "postscale_factor\n  ranks  postscale_factor\n  0      0.25\n  1      0.1"},
        Argument{"wire",
                 {},
                 {.wire = DType::kFloat16},
                 "compression\n  ranks  compression\n  0      none\n  1      float16"},
        Argument{"device",
                 {.device = DeviceKind::kHost},
                 {.device = DeviceKind::kCuda},
                 "device\n  ranks  device\n  0      host\n  1      cuda"}),
    [](const auto& info) { return info.param.name; });

TEST_P(MismatchOfArguments, has_a_column_of_its_own) {
  EXPECT_EQ(text_of({{GetParam().one, RankSet({0})}, {GetParam().other, RankSet({1})}}),
            "allreduce 'x': ranks differ in " + GetParam().shown);
}

TEST(Mismatch, shows_everything_that_differs_at_once) {
  EXPECT_EQ(text_of({{{.reduce = ReduceOp::kMin, .tensors = {{DType::kInt64, {}}}}, RankSet({0})},
                     {{.reduce = ReduceOp::kMax, .tensors = {{DType::kBool, {0}}}}, RankSet({1})}}),
            "allreduce 'x': ranks differ in dtype and shape, op\n"
            "  ranks  dtype  shape  op\n"
            "  0      int64  []     Min\n"
            "  1      bool   [0]    Max");
}

TEST(Mismatch, a_dimension_that_may_differ_is_a_star) {
  EXPECT_EQ(
      text_of({{{.op = OpKind::kAllgather, .tensors = {{kFloat, {Signature::kRagged, 4}}}}, RankSet({0, 1})},
               {{.op = OpKind::kAllgather, .tensors = {{kFloat, {Signature::kRagged, 3}}}}, RankSet({2})}}),
      "allgather 'x': ranks differ in shape\n"
      "  ranks  shape\n"
      "  2      [*,3]\n"
      "  0,1    [*,4]");
}

TEST(Mismatch, a_refusal_gives_its_reason_in_the_sentence) {
  const std::vector<Variant> variants{{{.refusal = "dtype complex64 is not supported"}, RankSet({1})},
                                      {{.tensors = {{kFloat, {2}}}}, RankSet({0, 2, 3})}};
  EXPECT_EQ(text_of(variants), "allreduce 'x': rank 1 refused the call (dtype complex64 is not supported)");
  EXPECT_EQ(text_of(variants, {{1, "train.py:57"}, {0, "train.py:41"}}),
            "allreduce 'x': rank 1 refused the call (dtype complex64 is not supported)\n"
            "  ranks  call     called at\n"
            "  1      refused  train.py:57\n"
            "  0,2,3  made     train.py:41");
}

TEST(Mismatch, a_refusal_does_not_count_as_a_difference_of_the_others) {
  EXPECT_EQ(text_of({{{.root = 0, .prescale = 1, .refusal = "no"}, RankSet({1})},
                     {{.root = 3, .prescale = 2, .tensors = {{kFloat, {2}}}}, RankSet({0})}}),
            "allreduce 'x': rank 1 refused the call (no)");
}

TEST(Mismatch, a_refusal_does_not_hide_how_the_others_differ) {
  EXPECT_EQ(text_of({{{.refusal = "no"}, RankSet({1})},
                     {{.tensors = {{kFloat, {1}}, {kFloat, {2}}}}, RankSet({0})},
                     {{.tensors = {{kFloat, {1}}, {kFloat, {3}}}}, RankSet({2})}}),
            "allreduce 'x': rank 1 refused the call (no), the others differ in shape of tensor 1 of 2\n"
            "  ranks  call     shape\n"
            "  0      made     [2]\n"
            "  1      refused  -\n"
            "  2      made     [3]");
}

TEST(Mismatch, of_refusals_alone_gives_all_reasons) {
  EXPECT_EQ(text_of({{{.refusal = "no"}, RankSet({0})}, {{.refusal = "never"}, RankSet({1})}}),
            "allreduce 'x': rank 0 refused the call (no), rank 1 refused the call (never)");
}

TEST(Mismatch, of_many_refusals_gives_a_few_reasons) {
  std::vector<Variant> variants;
  for (int rank = 0; rank < 100; ++rank)
    variants.push_back({{.refusal = "row " + std::to_string(rank)}, RankSet::single(rank)});
  EXPECT_THAT(text_of(variants),
              EndsWith("rank 2 refused the call (row 2), and 97 more groups of ranks refused it"));
}

TEST(Mismatch, three_ways_are_told_apart) {
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {1}}}}, RankSet({0, 5})},
                     {{.tensors = {{kFloat, {2}}}}, RankSet({3})},
                     {{.tensors = {{kFloat, {3}}}}, RankSet({1, 2, 4})}}),
            "allreduce 'x': ranks differ in shape\n"
            "  ranks  shape\n"
            "  3      [2]\n"
            "  0,5    [1]\n"
            "  1,2,4  [3]");
}

TEST(Mismatch, an_unnamed_call_is_named_by_its_number) {
  EXPECT_THAT(text_of(groups_of_one(2), {}, {"", 4}),
              StartsWith("allreduce unnamed call 4: ranks differ in shape\n"));
}

TEST(Mismatch, of_groups_shows_the_first_tensor_that_differs) {
  EXPECT_EQ(
      text_of({{{.tensors = {{kFloat, {1}}, {kFloat, {2}}, {kFloat, {3}}, {kFloat, {4}}, {kFloat, {5}}}},
                RankSet({1})},
               {{.tensors = {{kFloat, {1}}, {kFloat, {2}}, {kFloat, {9, 9}}, {kFloat, {4}}, {kFloat, {6}}}},
                RankSet({0, 2})}}),
      "allreduce 'x': ranks differ in shape of tensor 2 of 5\n"
      "  ranks  shape\n"
      "  1      [3]\n"
      "  0,2    [9,9]");
}

TEST(Mismatch, of_three_groups_shows_one_tensor_for_all) {
  // The first two agree about tensor 0 and the last two about tensor 1.
  EXPECT_EQ(text_of({{{.tensors = {{kFloat, {1}}, {kFloat, {5}}}}, RankSet({0})},
                     {{.tensors = {{kFloat, {1}}, {kFloat, {6}}}}, RankSet({1})},
                     {{.tensors = {{DType::kInt8, {2}}, {kFloat, {6}}}}, RankSet({2})}}),
            "allreduce 'x': ranks differ in dtype and shape of tensor 0 of 2\n"
            "  ranks  dtype    shape\n"
            "  0      float32  [1]\n"
            "  1      float32  [1]\n"
            "  2      int8     [2]");
}

TEST(Mismatch, of_groups_of_different_length_shows_the_lengths) {
  const std::vector<TensorType> four(4, TensorType{kFloat, {2}});
  const std::vector<TensorType> three(3, TensorType{DType::kInt8, {7}});
  EXPECT_EQ(text_of({{{.tensors = three}, RankSet({0})},
                     {{.tensors = four}, RankSet({1})},
                     {{.tensors = {}}, RankSet({2})}}),
            "allreduce 'x': ranks differ in number of tensors\n"
            "  ranks  number of tensors\n"
            "  0      3\n"
            "  1      4\n"
            "  2      0");
}

TEST(Mismatch, of_a_group_with_a_barrier_or_a_set_says_what_each_is) {
  const std::vector<TensorType> three(3, TensorType{kFloat, {2}});
  EXPECT_EQ(text_of({{{.tensors = three}, RankSet({0})},
                     {{.op = OpKind::kBarrier}, RankSet({1})},
                     {{.op = OpKind::kAddProcessSet, .ranks = {0, 1}}, RankSet({2})}}),
            "tensor 'x': ranks differ in operation\n"
            "  ranks  operation\n"
            "  0      allreduce\n"
            "  1      barrier\n"
            "  2      add_process_set");
}

TEST(Mismatch, of_groups_in_something_else_shows_that) {
  const std::vector<TensorType> two{{kFloat, {2}}, {DType::kInt8, {3}}};
  EXPECT_EQ(text_of({{{.reduce = ReduceOp::kSum, .tensors = two}, RankSet({0})},
                     {{.reduce = ReduceOp::kMax, .tensors = two}, RankSet({1})}}),
            "allreduce 'x': ranks differ in op\n  ranks  op\n  0      Sum\n  1      Max");
}

TEST(Mismatch, eight_groups_are_shown_and_of_nine_the_last_but_one_is_not) {
  EXPECT_THAT(text_of(groups_of_one(8)), Not(HasSubstr("more")));
  EXPECT_THAT(text_of(groups_of_one(9)), EndsWith("  6      [7]\n  and 1 more\n  8      [9]"));
}

TEST(Mismatch, of_thousands_of_groups_the_rarest_and_the_largest_are_shown) {
  std::vector<Variant> groups = groups_of_one(5000);
  groups.push_back({{.tensors = {{kFloat, {7, 7}}}}, RankSet::range(5000, 100)});
  const std::string text = text_of(groups);
  EXPECT_THAT(text, EndsWith("\n  and 4993 more\n  5000-5099  [7,7]"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 10);
}

TEST(Mismatch, those_are_asked_that_are_shown) {
  std::vector<Variant> groups = groups_of_one(5000);
  groups.push_back({{.tensors = {{kFloat, {7, 7}}}}, RankSet::range(5000, 100)});
  EXPECT_EQ(ranks_to_ask(groups), RankSet({0, 1, 2, 3, 4, 5, 6, 5000}));
}

TEST(Mismatch, of_thousands_of_ranks_without_order_a_few_are_listed) {
  std::vector<int> ranks;
  for (int rank = 1; rank < 60'000; rank += 1 + rank % 7) ranks.push_back(rank);
  const std::size_t count = ranks.size();
  const std::string text = text_of({{{.tensors = {{kFloat, {2}}}}, RankSet(std::move(ranks))},
                                    {{.tensors = {{kFloat, {3}}}}, RankSet({0})}});
  EXPECT_THAT(text, HasSubstr(",.. (" + std::to_string(count) + " ranks)  [2]"));
  EXPECT_LT(text.size(), 250u);
}

TEST(Mismatch, long_texts_are_cut) {
  const Shape many(100, 10);
  const std::string text = text_of({{{.tensors = {{kFloat, many}}}, RankSet({0})},
                                    {{.tensors = {{kFloat, {1}}}}, RankSet({1})},
                                    {{.refusal = std::string(1000, 'n') + "\n"}, RankSet({2})}},
                                   {{0, std::string(500, 'd') + "/train.py:41"}});
  EXPECT_THAT(text, HasSubstr("nnn...), the others differ in shape\n"));
  EXPECT_THAT(text, HasSubstr("[10,10,"));
  EXPECT_THAT(text, HasSubstr("...ddd"));
  EXPECT_THAT(text, HasSubstr("/train.py:41\n"));
  EXPECT_LT(text.size(), 1000u);
}

TEST(Mismatch, no_letter_is_cut_in_two) {
  for (std::size_t length = 40; length < 60; ++length) {
    std::string letters;
    for (std::size_t letter = 0; letter < length; ++letter) letters += "\u00fc";  // two bytes each
    const std::string text = text_of(groups_of_one(2), {{0, std::string(length % 2, 'a') + letters}});
    const std::size_t begin = text.find("...") + 3;
    EXPECT_EQ((text.find('\n', begin) - begin) % 2, 0u) << text;
  }
}

}  // namespace
}  // namespace hora
