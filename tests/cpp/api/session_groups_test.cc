// Calls of several tensors, which become ready together and travel as one.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "api/session.h"
#include "engine/counters.h"
#include "support/calls.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;

/// Everything alone, and together as far as it may be.
constexpr std::uint64_t kThresholds[] = {0, 300, 1 << 20};

bool is_defined(ReduceOp op, DType dtype) {
  const std::vector<ReduceOp> ops = ops_of(dtype);
  return std::ranges::find(ops, op) != ops.end();
}

/// Every dtype with every critical length, so that the dtypes alternate; in place where the length is even.
void allreduce_group(Grid& grid, int size, ReduceOp op, const Factors& factors = {}) {
  grid.group([&] {
    for (const std::size_t length : critical_lengths(size, 301)) {
      for (const DType dtype : kAllDTypes) {
        const bool is_scaled = factors.prescale != 1 || factors.postscale != 1;
        if (is_defined(op, dtype) && !(is_scaled && dtype == DType::kBool))
          grid.allreduce({dtype, op, length, length % 2 == 0, factors});
      }
    }
  });
}

void allgather_group(Grid& grid, int size) {
  std::int64_t first_rows = 0;
  grid.group([&] {
    for (const DType dtype : kAllDTypes) {
      std::vector<std::int64_t> rows;
      for (int rank = 0; rank < size; ++rank) rows.push_back((first_rows + rank) % 4);
      for (const std::int64_t row_length : {0, 1, 5}) grid.allgather(dtype, rows, row_length);
      ++first_rows;
    }
  });
}

void alltoall_group(Grid& grid, int size) {
  std::vector<std::vector<std::int64_t>> splits;
  for (int from = 0; from < size; ++from) {
    std::vector<std::int64_t>& row = splits.emplace_back();
    for (int to = 0; to < size; ++to) row.push_back((from * 3 + to) % 4);
  }
  grid.group([&] {
    for (const DType dtype : kAllDTypes) {
      for (const std::int64_t row_length : {0, 1, 5}) grid.alltoall(dtype, splits, row_length);
    }
  });
}

void reducescatter_group(Grid& grid, int size, ReduceOp op) {
  grid.group([&] {
    for (const std::int64_t rows : {0, 1, size - 1, 2 * size + 1}) {
      for (const DType dtype : kAllDTypes) {
        if (is_defined(op, dtype)) grid.reducescatter({dtype, op, rows, 3});
      }
    }
  });
}

void broadcast_group(Grid& grid, int size, int root) {
  grid.group([&] {
    for (const std::size_t length : critical_lengths(size, 301)) {
      for (const DType dtype : kAllDTypes) grid.broadcast(dtype, length, root, length % 2 == 0);
    }
  });
}

constexpr ReduceOp kOps[] = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};

class Groups : public ::testing::TestWithParam<int> {
 protected:
  /// Calls `body` with a grid of all ranks for every threshold.
  static void run_grid(const std::function<void(Grid&)>& body) {
    for (const std::uint64_t threshold : kThresholds) {
      run_ranks(GetParam(),
                [&](Session& session) {
                  Grid grid(session);
                  body(grid);
                  grid.finish();
                },
                {.settings = {.fusion_threshold = threshold}});
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Groups, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(Groups, an_allreduce_of_mixed_dtypes_equals_the_reference_for_every_op) {
  run_grid([](Grid& grid) {
    for (const ReduceOp op : kOps) allreduce_group(grid, GetParam(), op);
  });
}

TEST_P(Groups, a_scaled_allreduce_of_mixed_dtypes_equals_the_reference) {
  run_grid([](Grid& grid) {
    for (const ReduceOp op : kOps) allreduce_group(grid, GetParam(), op, {0.5, 3});
  });
}

TEST_P(Groups, an_allgather_of_ragged_rows_has_a_result_for_each_tensor) {
  run_grid([](Grid& grid) { allgather_group(grid, GetParam()); });
}

TEST_P(Groups, an_alltoall_sends_the_rows_of_every_tensor) {
  run_grid([](Grid& grid) { alltoall_group(grid, GetParam()); });
}

TEST_P(Groups, a_reducescatter_of_mixed_dtypes_equals_the_reference) {
  run_grid([](Grid& grid) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) reducescatter_group(grid, GetParam(), op);
  });
}

TEST_P(Groups, a_broadcast_of_mixed_dtypes_brings_what_the_root_has) {
  run_grid([](Grid& grid) {
    for (int root = 0; root < GetParam(); ++root) broadcast_group(grid, GetParam(), root);
  });
}

TEST_P(Groups, in_tiny_pieces_are_right) {
  run_ranks(GetParam(),
            [](Session& session) {
              Grid grid(session);
              allreduce_group(grid, GetParam(), ReduceOp::kSum);
              allgather_group(grid, GetParam());
              reducescatter_group(grid, GetParam(), ReduceOp::kSum);
              grid.finish();
            },
            {.settings = {.piece_bytes = 3}});
}

TEST_P(Groups, may_share_batches_with_single_tensors_and_with_each_other) {
  run_grid([](Grid& grid) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt16}) {
      for (std::size_t number = 0; number < 5; ++number) {
        grid.allreduce({dtype, ReduceOp::kAverage, number, number % 2 == 0});
        grid.group([&] {
          for (std::size_t tensor = 0; tensor < number; ++tensor)
            grid.allreduce({dtype, ReduceOp::kAverage, number * 3 + tensor, tensor % 2 == 0});
        });
      }
    }
  });
}

TEST_P(Groups, a_name_may_carry_another_group_in_every_round_and_come_back_to_a_known_one) {
  run_ranks(GetParam(), [](Session& session) {
    const int size = session.topology().size();
    for (int round = 0; round < 12; ++round) {
      std::vector<std::vector<std::int32_t>> tensors;
      for (int tensor = 0; tensor < round % 4; ++tensor)
        tensors.emplace_back(static_cast<std::size_t>(round % 3), tensor + 1);
      Call call{.op = OpKind::kAllreduce, .name = "x"};
      for (auto& tensor : tensors) call.tensors.push_back({ref(tensor), ref(tensor).data});
      run(session, call);
      for (int tensor = 0; tensor < round % 4; ++tensor) {
        EXPECT_EQ(tensors[static_cast<std::size_t>(tensor)],
                  std::vector<std::int32_t>(static_cast<std::size_t>(round % 3), (tensor + 1) * size));
      }
    }
  });
}

TEST_P(Groups, an_adasum_combines_each_tensor_by_itself) {
  run_ranks(GetParam(), [](Session& session) {
    const int rank = session.topology().rank();
    const auto value = [&](std::size_t index) { return (rank * 3 + static_cast<int>(index) * 5) % 7 - 3; };
    std::vector<Tensor> alone;
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat32, DType::kFloat16})
      alone.emplace_back(dtype, Shape{static_cast<std::int64_t>(10 + alone.size())}, value);
    std::vector<Tensor> grouped = alone;
    Call call{.op = OpKind::kAllreduce, .reduce = ReduceOp::kAdasum};
    for (Tensor& tensor : grouped) call.tensors.push_back({tensor.ref(), tensor.ref().data});
    run(session, call);
    for (std::size_t at = 0; at < alone.size(); ++at) {
      run(session, allreduce("", alone[at].ref(), ReduceOp::kAdasum));
      const std::vector<double> expected = alone[at].values();
      const std::vector<double> got = grouped[at].values();
      for (std::size_t index = 0; index < got.size(); ++index)
        EXPECT_TRUE(close_enough(alone[at].dtype(), got[index], expected[index]))
            << name(alone[at].dtype()) << ": " << got[index] << " instead of " << expected[index];
    }
  });
}

TEST_P(Groups, without_any_tensor_complete_when_all_ranks_have_called) {
  run_ranks(GetParam(), [](Session& session) {
    const std::vector<std::int64_t> splits(static_cast<std::size_t>(session.topology().size()), 0);
    for (const OpKind op : {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kBroadcast, OpKind::kAlltoall,
                            OpKind::kReducescatter}) {
      Call call{.op = op, .name = "x"};
      if (op == OpKind::kAlltoall) call.splits = splits;
      EXPECT_TRUE(run(session, call)->outputs().empty()) << name(op);
    }
    EXPECT_EQ(session.counters().batches, 5u);
    EXPECT_EQ(session.counters().tensors, 0u);
  });
}

TEST(GroupsInSets, of_every_op_work_among_the_members_alone) {
  const std::vector<std::vector<int>> sets{{1, 2, 4}, {0, 3, 4}, {4}};
  for (const std::uint64_t threshold : kThresholds) {
    run_ranks(5,
              [&](Session& session) {
                std::vector<std::int32_t> ids;
                for (const std::vector<int>& ranks : sets) ids.push_back(add_set(session, ranks));
                for (std::size_t set = 0; set < sets.size(); ++set) {
                  if (!std::ranges::binary_search(sets[set], session.topology().rank())) continue;
                  const auto size = static_cast<int>(sets[set].size());
                  Grid grid(session, {.process_set = ids[set]});
                  allreduce_group(grid, size, ReduceOp::kAverage);
                  allgather_group(grid, size);
                  alltoall_group(grid, size);
                  reducescatter_group(grid, size, ReduceOp::kSum);
                  for (int root = 0; root < size; ++root) broadcast_group(grid, size, root);
                  grid.finish();
                }
                run(session, barrier("end"));
              },
              {.host_split = {3, 2}, .settings = {.fusion_threshold = threshold}});
  }
}

class GroupsWhileRanksHaveJoined : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  static constexpr int kSize = 5;

  static bool has_joined(int rank) { return std::ranges::find(GetParam(), rank) != GetParam().end(); }

  /// Calls `body` on the ranks that have not joined, with a grid of them.
  static void run_grid(const std::function<void(Grid&)>& body) {
    for (const std::uint64_t threshold : kThresholds) {
      run_ranks(kSize,
                [&](Session& session) {
                  if (!has_joined(session.topology().rank())) {
                    Grid grid(session, {.joined = GetParam()});
                    body(grid);
                    grid.finish();
                  }
                  run(session, join());
                  run(session, barrier());
                },
                {.host_split = {3, 2}, .settings = {.fusion_threshold = threshold}});
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Of, GroupsWhileRanksHaveJoined,
                         ::testing::Values(std::vector<int>{0}, std::vector<int>{2, 4},
                                           std::vector<int>{0, 1, 2, 3}),
                         [](const auto& info) {
                           return fmt::format("ranks_{}", fmt::join(info.param, "_"));
                         });

TEST_P(GroupsWhileRanksHaveJoined, an_allreduce_divides_by_those_left_and_ignores_the_others) {
  run_grid([](Grid& grid) {
    for (const ReduceOp op : kOps) allreduce_group(grid, kSize, op);
  });
}

TEST_P(GroupsWhileRanksHaveJoined, a_reducescatter_divides_by_those_left) {
  run_grid([](Grid& grid) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) reducescatter_group(grid, kSize, op);
  });
}

TEST_P(GroupsWhileRanksHaveJoined, rows_go_only_between_those_left) {
  run_grid([](Grid& grid) {
    allgather_group(grid, kSize);
    alltoall_group(grid, kSize);
  });
}

TEST_P(GroupsWhileRanksHaveJoined, the_others_relay_a_broadcast) {
  run_grid([](Grid& grid) {
    for (int root = 0; root < kSize; ++root) {
      if (!has_joined(root)) broadcast_group(grid, kSize, root);
    }
  });
}

TEST_P(GroupsWhileRanksHaveJoined, a_broadcast_from_one_of_the_others_is_an_error) {
  run_ranks(kSize, [](Session& session) {
    if (!has_joined(session.topology().rank())) {
      std::vector<float> first{1};
      std::vector<double> second{2};
      Call call = broadcast("x", ref(first), GetParam().front());
      call.tensors.push_back({ref(second), ref(second).data});
      EXPECT_THAT(error_of(session, call), HasSubstr("has joined and has nothing to send"));
      EXPECT_EQ(second[0], 2.0);
    }
    run(session, join());
    run(session, barrier());
  });
}

TEST(Group, in_place_and_out_of_place_may_be_mixed_and_inputs_stay_as_they_are) {
  run_ranks(3, [](Session& session) {
    std::vector<float> in_place{1, 2};
    std::vector<std::int64_t> input{3};
    std::vector<std::int64_t> output{0};
    Call call = allreduce("x", ref(in_place));
    call.tensors.push_back({ref(input), ref(output).data});
    const HandlePtr handle = run(session, call);
    EXPECT_EQ(in_place, (std::vector<float>{3, 6}));
    EXPECT_EQ(input[0], 3);
    EXPECT_EQ(output[0], 9);
    EXPECT_TRUE(handle->outputs().empty());
  });
}

TEST(Group, a_result_of_each_tensor_outlives_the_session) {
  run_ranks(2, [](Session& session) {
    std::vector<float> rows(static_cast<std::size_t>(session.topology().rank() + 1) * 2, 1.5f);
    std::vector<std::int16_t> numbers{static_cast<std::int16_t>(session.topology().rank())};
    Call call = allgather("x", ref(rows, {session.topology().rank() + 1, 2}));
    call.tensors.push_back({ref(numbers)});
    const HandlePtr handle = run(session, call);
    session.leave();
    const std::vector<Output>& outputs = handle->outputs();
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(outputs[0].shape, (Shape{3, 2}));
    EXPECT_EQ(outputs[0].sizes, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(outputs[1].dtype, DType::kInt16);
    EXPECT_EQ(values_of(DType::kInt16, {outputs[1].data.get(), outputs[1].bytes()}),
              (std::vector<double>{0, 1}));
  });
}

TEST(Group, counters_count_each_tensor_and_all_bytes) {
  run_ranks(2, [](Session& session) {
    std::vector<float> first(10);
    std::vector<std::int16_t> second(3);
    std::vector<double> third(1);
    Call call = allreduce("x", ref(first));
    call.tensors.push_back({ref(second), ref(second).data});
    call.tensors.push_back({ref(third), ref(third).data});
    run(session, call);
    run(session, allreduce("y", ref(first)));
    EXPECT_EQ(session.counters().batches, 2u);
    EXPECT_EQ(session.counters().tensors, 4u);
    EXPECT_EQ(session.counters().bytes, 40u + 6 + 8 + 40);
    EXPECT_EQ(session.counters().errors, 0u);
  });
}

TEST(Group, one_that_is_known_costs_as_little_agreement_as_one_tensor) {
  run_ranks(2, [](Session& session) {
    std::vector<float> values(2);
    Call single = allreduce("single", ref(values));
    Call group = allreduce("group", ref(values));
    for (int tensor = 0; tensor < 50; ++tensor) group.tensors.push_back({ref(values), ref(values).data});
    const auto cost = [&](const Call& call) {
      const std::uint64_t before = session.counters().message_bytes;
      run(session, call);
      return session.counters().message_bytes - before;
    };
    for (const Call& call : {single, group}) run(session, call);
    const std::uint64_t of_single = cost(single);
    EXPECT_EQ(cost(group), of_single);
    run(session, barrier("none says goodbye before all have counted"));
  });
}

/// A wrong tensor in a group, which rank 1 alone has.
struct Wrong {
  std::string name;
  OpKind op;
  ReduceOp reduce;
  DType dtype;
  Shape shape;
  std::string reason;
};

void PrintTo(const Wrong& wrong, std::ostream* out) {
  *out << wrong.name;
}

class WrongInGroup : public ::testing::TestWithParam<Wrong> {};

INSTANTIATE_TEST_SUITE_P(
    Of, WrongInGroup,
    ::testing::Values(Wrong{"averaged_bool",
                            OpKind::kAllreduce,
                            ReduceOp::kAverage,
                            DType::kBool,
                            {2},
                            "op Average is not defined for bool"},
                      Wrong{"adasum_of_integers",
                            OpKind::kAllreduce,
                            ReduceOp::kAdasum,
                            DType::kInt32,
                            {2},
                            "op Adasum is defined for floating-point numbers, not for int32"},
                      Wrong{"gathered_scalar",
                            OpKind::kAllgather,
                            ReduceOp::kSum,
                            DType::kFloat32,
                            {},
                            "a scalar has no first dimension"},
                      Wrong{"scattered_scalar",
                            OpKind::kReducescatter,
                            ReduceOp::kSum,
                            DType::kFloat32,
                            {},
                            "a scalar has no first dimension"},
                      Wrong{"exchanged_scalar",
                            OpKind::kAlltoall,
                            ReduceOp::kSum,
                            DType::kFloat32,
                            {},
                            "a scalar has no first dimension"},
                      Wrong{"rows_that_splits_do_not_cover",
                            OpKind::kAlltoall,
                            ReduceOp::kSum,
                            DType::kFloat32,
                            {3},
                            "splits [1,1] add up to 2, but the tensor has 3 rows"}),
    [](const auto& info) { return info.param.name; });

TEST_P(WrongInGroup, is_refused_wherever_it_stands_and_the_other_ranks_hear_why) {
  const Wrong& wrong = GetParam();
  run_ranks(2, [&](Session& session) {
    Tensor good(DType::kFloat32, {2}, [](std::size_t) { return 1; });
    Tensor bad(wrong.dtype, wrong.shape, [](std::size_t) { return 1; });
    for (std::size_t place = 0; place < 3; ++place) {
      Call call{.op = wrong.op, .name = "x", .reduce = wrong.reduce};
      if (wrong.op == OpKind::kAlltoall) call.splits = {1, 1};
      std::vector<Tensor> outputs(3, good);
      for (Tensor& output : outputs) call.tensors.push_back({good.ref(), output.ref().data});
      if (session.topology().rank() == 1) {
        Call refused = call;
        refused.tensors[place].input = bad.ref();
        EXPECT_THAT(refusal_of(session, refused).text, HasSubstr(wrong.reason));
      } else {
        EXPECT_THAT(error_of(session, call), HasSubstr("rank 1 refused the call (" + wrong.reason));
      }
      EXPECT_EQ(error_of(session, call), "") << "the next correct call";
    }
  });
}

}  // namespace
}  // namespace hora::testing
