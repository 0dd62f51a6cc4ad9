#include <fmt/format.h>
#include <gmock/gmock.h>

#include "api/session.h"
#include "support/calls.h"
#include "support/run_ranks.h"
#include "support/sentence.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

/// One way in which rank 2 may differ from the others, and what all ranks are told.
struct Difference {
  std::string name;
  std::function<Call(Tensor& input, Tensor& output, bool is_odd)> call;
  std::string error;
};

void PrintTo(const Difference& difference, std::ostream* out) {
  *out << difference.name;
}

Call with(Call call, const std::function<void(Call&)>& change) {
  change(call);
  return call;
}

std::vector<Difference> differences() {
  return {
      {"shape",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()), [&](Call& call) {
           if (is_odd) call.tensors.front().input.shape = {3, 2};
         });
       },
       shapes_differ("allreduce 'x'", {{"2", "[3,2]"}, {"0,1", "[2,3]"}})},
      {"dtype",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()), [&](Call& call) {
           if (is_odd) call.tensors.front().input.dtype = DType::kInt32;
         });
       },
       with_table("allreduce 'x': ranks differ in dtype",
                  {{"ranks", "dtype"}, {"2", "int32"}, {"0,1", "float32"}})},
      {"reduce_op",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return allreduce("x", input.ref(), output.ref(), is_odd ? ReduceOp::kMax : ReduceOp::kSum);
       },
       with_table("allreduce 'x': ranks differ in op", {{"ranks", "op"}, {"2", "Max"}, {"0,1", "Sum"}})},
      {"op",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return is_odd ? broadcast("x", input.ref(), output.ref(), 0)
                       : allreduce("x", input.ref(), output.ref());
       },
       with_table("tensor 'x': ranks differ in operation",
                  {{"ranks", "operation"}, {"2", "broadcast"}, {"0,1", "allreduce"}})},
      {"root",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return broadcast("x", input.ref(), output.ref(), is_odd ? 1 : 0);
       },
       with_table("broadcast 'x': ranks differ in root_rank",
                  {{"ranks", "root_rank"}, {"2", "1"}, {"0,1", "0"}})},
      {"prescale",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()),
                     [&](Call& call) { call.prescale = is_odd ? 0.5 : 1; });
       },
       with_table("allreduce 'x': ranks differ in prescale_factor",
                  {{"ranks", "prescale_factor"}, {"2", "0.5"}, {"0,1", "1"}})},
      {"postscale",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()),
                     [&](Call& call) { call.postscale = is_odd ? 2 : 1; });
       },
       with_table("allreduce 'x': ranks differ in postscale_factor",
                  {{"ranks", "postscale_factor"}, {"2", "2"}, {"0,1", "1"}})},
      {"number_of_tensors",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()),
                     [&](Call& call) { call.tensors.resize(is_odd ? 4 : 3, call.tensors.front()); });
       },
       with_table("allreduce 'x': ranks differ in number of tensors",
                  {{"ranks", "number of tensors"}, {"2", "4"}, {"0,1", "3"}})},
      {"one_tensor_of_a_group",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()), [&](Call& call) {
           call.tensors.resize(3, call.tensors.front());
           if (is_odd) call.tensors[1].input.dtype = DType::kInt32;
           if (is_odd) call.tensors[2].input.shape = {6};
         });
       },
       with_table("allreduce 'x': ranks differ in dtype of tensor 1 of 3",
                  {{"ranks", "dtype"}, {"2", "int32"}, {"0,1", "float32"}})},
      {"no_tensor",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(broadcast("x", input.ref(), output.ref(), 0),
                     [&](Call& call) { call.tensors.resize(is_odd ? 0 : 2, call.tensors.front()); });
       },
       with_table("broadcast 'x': ranks differ in number of tensors",
                  {{"ranks", "number of tensors"}, {"2", "0"}, {"0,1", "2"}})},
      {"unnamed",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return allreduce("", input.ref(), output.ref(), is_odd ? ReduceOp::kMin : ReduceOp::kSum);
       },
       with_table("allreduce unnamed call 1: ranks differ in op",
                  {{"ranks", "op"}, {"2", "Min"}, {"0,1", "Sum"}})},
  };
}

class Mismatch : public ::testing::TestWithParam<Difference> {};

INSTANTIATE_TEST_SUITE_P(Of, Mismatch, ::testing::ValuesIn(differences()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Mismatch, is_the_same_error_on_all_ranks_and_leaves_everything_as_it_was) {
  run_ranks(3, [](Session& session) {
    Tensor input(DType::kFloat32, {2, 3}, [](std::size_t index) { return static_cast<double>(index); });
    Tensor output(DType::kFloat32, {2, 3});
    const Bytes input_before = input.bytes();
    const Bytes output_before = output.bytes();
    const bool is_odd = session.topology().rank() == 2;
    EXPECT_EQ(error_of(session, GetParam().call(input, output, is_odd)), GetParam().error);
    EXPECT_TRUE(input.bytes() == input_before);
    EXPECT_TRUE(output.bytes() == output_before);
    EXPECT_EQ(error_of(session, GetParam().call(input, output, false)), "") << "the next correct call";
  });
}

TEST_P(Mismatch, of_a_cached_tensor_is_found_too) {
  run_ranks(3, [](Session& session) {
    Tensor input(DType::kFloat32, {2, 3}, [](std::size_t) { return 1.0; });
    Tensor output(DType::kFloat32, {2, 3});
    const bool is_odd = session.topology().rank() == 2;
    for (int round = 0; round < 2; ++round) run(session, GetParam().call(input, output, false));
    for (int round = 0; round < 2; ++round)
      EXPECT_NE(error_of(session, GetParam().call(input, output, is_odd)), "");
    EXPECT_EQ(error_of(session, GetParam().call(input, output, false)), "");
  });
}

TEST(MismatchAmongOthers, fails_only_the_tensor_concerned) {
  run_ranks(4, [](Session& session) {
    std::vector<float> good{1};
    std::vector<float> odd(session.topology().rank() == 3 ? 2 : 1);
    const HandlePtr first = session.submit(allreduce("bad", ref(odd)));
    const HandlePtr second = session.submit(allreduce("good", ref(good)));
    EXPECT_NE(error_of(session, first), "");
    EXPECT_EQ(error_of(session, second), "");
    EXPECT_EQ(good[0], 4.0f);
  });
}

TEST(MismatchAmongOthers, on_inner_nodes_of_a_deep_tree_names_each_rank) {
  run_ranks(8,
            [](Session& session) {
              std::vector<float> values(session.topology().rank() % 2 == 0 ? 2 : 3);
              EXPECT_EQ(error_of(session, allreduce("x", ref(values))),
                        shapes_differ("allreduce 'x'", {{"0,2,..,6", "[2]"}, {"1,3,..,7", "[3]"}}));
            },
            {.host_split = {2, 3, 3}});
}

Caller at(const std::string& place) {
  return std::make_shared<const std::string>(place);
}

TEST(MismatchOfCallers, each_group_is_shown_with_the_place_of_its_first_rank) {
  run_ranks(8,
            [](Session& session) {
              const int rank = session.topology().rank();
              std::vector<float> values(rank % 3 == 0 ? 2 : 3);
              for (int round = 0; round < 3; ++round) {
                Call call = allreduce("x", ref(values));
                if (rank != 4) call.caller = at(fmt::format("train.py:{}", 10 * rank + round));
                EXPECT_EQ(error_of(session, std::move(call)),
                          with_table("allreduce 'x': ranks differ in shape",
                                     {{"ranks", "shape", "called at"},
                                      {"0,3,6", "[2]", fmt::format("train.py:{}", round)},
                                      {"1,2,4,5,7", "[3]", fmt::format("train.py:1{}", round)}}));
              }
            },
            {.host_split = {2, 3, 3}});
}

TEST(MismatchOfCallers, what_was_cached_is_shown_with_the_place_of_this_call) {
  run_ranks(3, [](Session& session) {
    const int rank = session.topology().rank();
    std::vector<float> values(4, 1.0f);
    for (const std::int64_t length : {2, 3}) {
      Call call = allreduce("x", ref(values, {length}));
      call.caller = at("train.py:1");
      EXPECT_EQ(error_of(session, std::move(call)), "");
    }
    Call call = allreduce("x", ref(values, {rank == 1 ? 2 : 3}));
    call.caller = at(rank == 1 ? "evaluate.py:7" : "train.py:9");
    EXPECT_EQ(error_of(session, std::move(call)),
              with_table("allreduce 'x': ranks differ in shape", {{"ranks", "shape", "called at"},
                                                                  {"1", "[2]", "evaluate.py:7"},
                                                                  {"0,2", "[3]", "train.py:9"}}));
  });
}

TEST(MismatchOfCallers, a_refused_call_has_a_place_too) {
  run_ranks(3, [](Session& session) {
    if (session.topology().rank() == 2) {
      session.refuse(OpKind::kAllreduce, "x", kGlobalSet, "no", at("train.py:3"));
    } else {
      std::vector<float> values(1);
      Call call = allreduce("x", ref(values));
      call.caller = at("train.py:5");
      EXPECT_EQ(error_of(session, std::move(call)),
                with_table("allreduce 'x': rank 2 refused the call (no)", {{"ranks", "call", "called at"},
                                                                           {"2", "refused", "train.py:3"},
                                                                           {"0,1", "made", "train.py:5"}}));
    }
    run(session, barrier("none leaves before all have heard"));
  });
}

}  // namespace
}  // namespace hora::testing
