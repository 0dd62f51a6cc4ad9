#include <gmock/gmock.h>

#include "api/session.h"
#include "support/calls.h"
#include "support/run_ranks.h"
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
       "allreduce 'x': rank 2 sent float32[3,2], ranks 0,1 sent float32[2,3]"},
      {"dtype",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()), [&](Call& call) {
           if (is_odd) call.tensors.front().input.dtype = DType::kInt32;
         });
       },
       "allreduce 'x': rank 2 sent int32[2,3], ranks 0,1 sent float32[2,3]"},
      {"reduce_op",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return allreduce("x", input.ref(), output.ref(), is_odd ? ReduceOp::kMax : ReduceOp::kSum);
       },
       "allreduce 'x': rank 2 sent float32[2,3] op Max, ranks 0,1 sent float32[2,3] op Sum"},
      {"op",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return is_odd ? broadcast("x", input.ref(), output.ref(), 0)
                       : allreduce("x", input.ref(), output.ref());
       },
       "tensor 'x': rank 2 sent broadcast float32[2,3], ranks 0,1 sent allreduce float32[2,3]"},
      {"root",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return broadcast("x", input.ref(), output.ref(), is_odd ? 1 : 0);
       },
       "broadcast 'x': rank 2 sent float32[2,3] root_rank 1, ranks 0,1 sent float32[2,3] root_rank 0"},
      {"prescale",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()),
                     [&](Call& call) { call.prescale = is_odd ? 0.5 : 1; });
       },
       "allreduce 'x': rank 2 sent float32[2,3] prescale_factor 0.5, ranks 0,1 sent float32[2,3] "
       "prescale_factor 1"},
      {"postscale",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()),
                     [&](Call& call) { call.postscale = is_odd ? 2 : 1; });
       },
       "allreduce 'x': rank 2 sent float32[2,3] postscale_factor 2, ranks 0,1 sent float32[2,3] "
       "postscale_factor 1"},
      {"number_of_tensors",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()),
                     [&](Call& call) { call.tensors.resize(is_odd ? 4 : 3, call.tensors.front()); });
       },
       "allreduce 'x': rank 2 sent 4 tensors, ranks 0,1 sent 3 tensors"},
      {"one_tensor_of_a_group",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(allreduce("x", input.ref(), output.ref()), [&](Call& call) {
           call.tensors.resize(3, call.tensors.front());
           if (is_odd) call.tensors[1].input.dtype = DType::kInt32;
           if (is_odd) call.tensors[2].input.shape = {6};
         });
       },
       "allreduce 'x': rank 2 sent int32[2,3] as tensor 1 of 3, ranks 0,1 sent float32[2,3] as tensor 1 of "
       "3"},
      {"no_tensor",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return with(broadcast("x", input.ref(), output.ref(), 0),
                     [&](Call& call) { call.tensors.resize(is_odd ? 0 : 2, call.tensors.front()); });
       },
       "broadcast 'x': rank 2 sent no tensor, ranks 0,1 sent 2 tensors"},
      {"unnamed",
       [](Tensor& input, Tensor& output, bool is_odd) {
         return allreduce("", input.ref(), output.ref(), is_odd ? ReduceOp::kMin : ReduceOp::kSum);
       },
       "allreduce unnamed call 1: rank 2 sent float32[2,3] op Min, ranks 0,1 sent float32[2,3] op Sum"},
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
                        "allreduce 'x': ranks 0,2,..,6 sent float32[2], ranks 1,3,..,7 sent float32[3]");
            },
            {.host_split = {2, 3, 3}});
}

}  // namespace
}  // namespace hora::testing
