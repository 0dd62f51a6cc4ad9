// Ranks that have run out of data join; the others go on without them.
//
// A call that a joined rank never makes completes only once it has joined, so nothing here depends on timing.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "api/session.h"
#include "core/rank_set.h"
#include "support/calls.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/sentence.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;

/// Some ranks of a job that join before they ever submit anything.
struct JoinCase {
  int size;
  std::vector<int> joined;
  std::vector<int> host_split = {};
};

std::string name_of(const JoinCase& kase) {
  return fmt::format("ranks_{}_of_{}_on_{}_hosts", fmt::join(kase.joined, "_"), kase.size,
                     std::max<std::size_t>(1, kase.host_split.size()));
}

void PrintTo(const JoinCase& kase, std::ostream* out) {
  *out << name_of(kase);
}

class JoinedRanks : public ::testing::TestWithParam<JoinCase> {
 protected:
  /// Runs `body` on the ranks that have not joined; in the end all join.
  static void run_without_joined(const std::function<void(Session&)>& body, const Settings& settings = {}) {
    run_ranks(GetParam().size,
              [&](Session& session) {
                if (!has_joined(session.topology().rank())) body(session);
                run(session, join());
                // None leaves before all have come out of the join.
                run(session, barrier());
              },
              {.host_split = GetParam().host_split, .settings = settings});
  }

  static bool has_joined(int rank) {
    return std::ranges::find(GetParam().joined, rank) != GetParam().joined.end();
  }

  /// Calls `body` with a grid of those that have not joined, with everything alone and everything together.
  static void run_grid(const std::function<void(Grid&, Session&)>& body) {
    for (const std::uint64_t threshold : {0, 300, 1 << 20}) {
      run_without_joined(
          [&](Session& session) {
            Grid grid(session, {.joined = GetParam().joined});
            body(grid, session);
            grid.finish();
          },
          {.fusion_threshold = threshold});
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Of, JoinedRanks,
                         ::testing::Values(JoinCase{2, {0}}, JoinCase{2, {1}}, JoinCase{3, {0, 2}},
                                           JoinCase{4, {1}}, JoinCase{7, {0, 1, 2, 4, 5, 6}, {3, 2, 2}},
                                           JoinCase{7, {3, 4}, {3, 2, 2}}, JoinCase{7, {0, 3, 6}, {3, 2, 2}},
                                           JoinCase{8, {1, 3, 5, 7}, {1, 1, 1, 1, 1, 1, 1, 1}}),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(JoinedRanks, do_not_count_in_an_allreduce_of_any_op_and_dtype) {
  run_grid([](Grid& grid, Session&) {
    for (const DType dtype : kAllDTypes) {
      for (const ReduceOp op : ops_of(dtype)) {
        for (const std::size_t length : critical_lengths(GetParam().size, 301))
          grid.allreduce({dtype, op, length, length % 2 == 0});
      }
    }
  });
}

TEST_P(JoinedRanks, do_not_count_in_a_scaled_allreduce) {
  run_grid([](Grid& grid, Session&) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt32}) {
      for (const ReduceOp op : ops_of(dtype)) grid.allreduce({dtype, op, 50, true, {2, 3}});
    }
  });
}

TEST_P(JoinedRanks, do_not_count_in_a_reducescatter) {
  run_grid([](Grid& grid, Session&) {
    for (const DType dtype : kAllDTypes) {
      for (const std::int64_t rows : {0, 1, 3 * GetParam().size + 1}) {
        grid.reducescatter({dtype, ReduceOp::kSum, rows, 3});
        if (dtype != DType::kBool) grid.reducescatter({dtype, ReduceOp::kAverage, rows, 3});
      }
    }
  });
}

TEST_P(JoinedRanks, bring_no_rows_to_an_allgather) {
  run_grid([](Grid& grid, Session&) {
    for (const DType dtype : kAllDTypes) {
      std::vector<std::int64_t> rows(static_cast<std::size_t>(GetParam().size));
      std::iota(rows.begin(), rows.end(), 1);
      grid.allgather(dtype, rows, 3);
      grid.allgather(dtype, std::vector<std::int64_t>(rows.size(), 0), 3);
    }
  });
}

TEST_P(JoinedRanks, send_no_rows_in_an_alltoall) {
  run_grid([](Grid& grid, Session&) {
    for (const DType dtype : kAllDTypes) {
      std::vector<std::int64_t> rows(static_cast<std::size_t>(GetParam().size));
      std::iota(rows.begin(), rows.end(), 0);
      grid.alltoall(dtype, std::vector(rows.size(), rows), 3);
    }
  });
}

TEST_P(JoinedRanks, relay_a_broadcast_from_a_rank_that_has_not_joined) {
  run_grid([](Grid& grid, Session&) {
    for (int root = 0; root < GetParam().size; ++root) {
      if (has_joined(root)) continue;
      for (const DType dtype : kAllDTypes) {
        for (const std::size_t length : {0, 1, 300}) grid.broadcast(dtype, length, root, length == 1);
      }
    }
  });
}

TEST_P(JoinedRanks, do_not_hold_up_a_barrier) {
  run_without_joined([](Session& session) {
    for (int round = 0; round < 3; ++round) run(session, barrier(round == 0 ? "named" : ""));
  });
}

TEST_P(JoinedRanks, make_a_broadcast_from_them_an_error_and_the_next_call_works) {
  run_without_joined([](Session& session) {
    std::vector<float> values{1};
    for (const int root : GetParam().joined) {
      EXPECT_EQ(error_of(session, broadcast("x", ref(values), root)),
                fmt::format("broadcast 'x': root_rank {} has joined and has nothing to send", root));
    }
    EXPECT_EQ(error_of(session, allreduce("x", ref(values))), "");
    EXPECT_EQ(values[0], static_cast<float>(GetParam().size) - static_cast<float>(GetParam().joined.size()));
    EXPECT_EQ(error_of(session, broadcast("x", ref(values), session.process_set(kGlobalSet).back())).empty(),
              !has_joined(GetParam().size - 1));
  });
}

TEST_P(JoinedRanks, do_not_appear_in_a_mismatch) {
  if (GetParam().size - static_cast<int>(GetParam().joined.size()) < 2) return;
  run_without_joined([](Session& session) {
    std::vector<int> others;
    for (int rank = 0; rank < GetParam().size; ++rank) {
      if (!has_joined(rank)) others.push_back(rank);
    }
    const int odd = others.back();
    others.pop_back();
    std::vector<float> values(session.topology().rank() == odd ? 3 : 2);
    EXPECT_EQ(
        error_of(session, allreduce("x", ref(values))),
        shapes_differ("allreduce 'x'",
                      others.size() == 1 && others.front() < odd
                          ? std::vector<std::vector<std::string>>{{std::to_string(others.front()), "[2]"},
                                                                  {std::to_string(odd), "[3]"}}
                          : std::vector<std::vector<std::string>>{{std::to_string(odd), "[3]"},
                                                                  {RankSet(others).to_string(), "[2]"}}));
  });
}

TEST_P(JoinedRanks, make_a_change_of_process_sets_an_error) {
  run_without_joined([](Session& session) {
    const std::string absent = fmt::format("ranks {} have joined", RankSet(GetParam().joined).to_string());
    EXPECT_THAT(error_of(session, add_process_set({0, 1})), HasSubstr(absent));
    EXPECT_THAT(error_of(session, remove_process_set({0, 1})), HasSubstr(absent));
  });
}

TEST_P(JoinedRanks, take_full_part_again_when_all_have_joined) {
  run_ranks(GetParam().size,
            [](Session& session) {
              for (int round = 0; round < 3; ++round) {
                Grid before(session);
                before.allreduce({DType::kFloat32, ReduceOp::kAverage, 100, true});
                before.finish();
                if (!has_joined(session.topology().rank())) {
                  Grid without(session, {.joined = GetParam().joined});
                  without.allreduce({DType::kFloat32, ReduceOp::kAverage, 100, true});
                  without.allgather(DType::kInt32,
                                    std::vector<std::int64_t>(static_cast<std::size_t>(GetParam().size), 2),
                                    3);
                  without.finish();
                }
                run(session, join());
                Grid after(session);
                after.allreduce({DType::kFloat16, ReduceOp::kMin, 100, true});
                after.broadcast(DType::kInt64, 10, GetParam().joined.front(), false);
                after.finish();
              }
            },
            {.host_split = GetParam().host_split});
}

/// Orders in which the ranks of a job join.
struct Order {
  std::vector<int> ranks;
  std::vector<int> host_split = {};
};

const std::vector<Order> kOrders{{{0}},
                                 {{0, 1}},
                                 {{1, 0}},
                                 {{2, 0, 1}},
                                 {{3, 2, 1, 0}},
                                 {{4, 1, 6, 0, 3, 5, 2}, {3, 2, 2}},
                                 {{0, 1, 2, 3, 4, 5, 6}, {2, 4, 1}}};

TEST(Join, tells_all_ranks_which_joined_last_and_divides_by_those_that_are_left) {
  for (const Order& order : kOrders) {
    const auto size = static_cast<int>(order.ranks.size());
    run_ranks(size,
              [&](Session& session) {
                for (int step = 0; step < size; ++step) {
                  if (order.ranks[static_cast<std::size_t>(step)] == session.topology().rank()) break;
                  // Without the ranks that have joined so far and the one that does now.
                  std::vector<double> values{1, 3};
                  run(session, allreduce("step", ref(values)));
                  EXPECT_EQ(values[0], size - 1 - step);
                  run(session, allreduce("average", ref(values), ReduceOp::kAverage));
                  EXPECT_EQ(values[1], 3.0 * (size - 1 - step));
                }
                EXPECT_EQ(run(session, join())->value(), order.ranks.back());
                run(session, barrier());
              },
              {.host_split = order.host_split});
  }
}

TEST(Join, of_all_at_once_names_the_same_rank_on_all_however_often) {
  run_ranks(7,
            [](Session& session) {
              for (int round = 0; round < 30; ++round) {
                std::vector<std::int64_t> last{run(session, join())->value()};
                EXPECT_GE(last[0], 0);
                EXPECT_LT(last[0], 7);
                Tensor tensor(DType::kInt64, {1}, [&](std::size_t) { return static_cast<double>(last[0]); });
                expect_same_on_all_ranks(session, tensor.bytes());
              }
            },
            {.host_split = {3, 3, 1}});
}

TEST(Join, twice_at_once_on_one_rank_is_refused) {
  run_ranks(2, [](Session& session) {
    const HandlePtr handle = session.submit(join());
    const Refusal refusal = refusal_of(session, join());
    EXPECT_EQ(refusal.kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(refusal.text, HasSubstr("still in flight"));
    wait(session, handle);
    run(session, join());
  });
}

TEST(Join, unnamed_calls_pair_again_afterwards_whatever_each_rank_called_before) {
  run_ranks(4,
            [](Session& session) {
              const int rank = session.topology().rank();
              for (int round = 0; round < 5; ++round) {
                // Rank r runs out of data after r calls.
                for (int call = 0; call < rank; ++call) {
                  std::vector<std::int32_t> values{100 * round + call};
                  run(session, allreduce("", ref(values)));
                  EXPECT_EQ(values[0], (100 * round + call) * (3 - call));
                }
                run(session, join());
                std::vector<std::vector<std::int32_t>> tensors;
                for (int number = 0; number < 10; ++number) tensors.push_back({number});
                std::vector<HandlePtr> handles;
                for (auto& tensor : tensors) handles.push_back(session.submit(allreduce("", ref(tensor))));
                for (const HandlePtr& handle : handles) wait(session, handle);
                for (int number = 0; number < 10; ++number)
                  EXPECT_EQ(tensors[static_cast<std::size_t>(number)][0], 4 * number);
                // Numbering has begun anew on all ranks.
                std::vector<float> odd(rank == 2 ? 2 : 1);
                EXPECT_THAT(error_of(session, allreduce("", ref(odd))), HasSubstr("unnamed call 11: "));
                run(session, join());
              }
            },
            {.host_split = {2, 2}});
}

TEST(Join, numbering_in_process_sets_goes_on_across_it) {
  run_ranks(3, [](Session& session) {
    const std::int32_t set = add_set(session, {0, 2});
    const int rank = session.topology().rank();
    for (int round = 0; round < 3; ++round) {
      for (int call = 0; call < 3 && rank != 1; ++call) {
        std::vector<std::int32_t> values{call};
        run(session, on(set, allreduce("", ref(values))));
        EXPECT_EQ(values[0], 2 * call);
      }
      run(session, join());
    }
    std::vector<float> odd(rank == 2 ? 2 : 1);
    if (rank != 1) {
      EXPECT_THAT(error_of(session, on(set, allreduce("", ref(odd)))), HasSubstr("unnamed call 10: "));
    }
    run(session, barrier());
  });
}

TEST(Join, calls_in_flight_at_that_moment_still_count) {
  for (int round = 0; round < 20; ++round) {
    run_ranks(4,
              [](Session& session) {
                const int rank = session.topology().rank();
                std::vector<float> named{1};
                std::vector<float> unnamed{2};
                std::vector<std::int32_t> row{rank};
                std::vector<double> fact{rank + 0.5};
                const std::vector<HandlePtr> handles{
                    session.submit(allreduce("x", ref(named), ReduceOp::kSum)),
                    session.submit(allreduce("", ref(unnamed), ReduceOp::kAverage)),
                    session.submit(allgather("rows", ref(row))),
                    session.submit(broadcast("fact", ref(fact), 1))};
                const HandlePtr joining = session.submit(join());
                for (const HandlePtr& handle : handles) wait(session, handle);
                wait(session, joining);
                EXPECT_EQ(named[0], 4.0f);
                EXPECT_EQ(unnamed[0], 2.0f);
                EXPECT_EQ(handles[2]->outputs().front().shape, Shape{4});
                EXPECT_EQ(fact[0], 1.5);
                run(session, barrier());
              },
              {.host_split = {2, 2}});
  }
}

TEST(Join, a_call_that_only_one_rank_made_completes_when_all_others_have_joined) {
  for (int caller = 0; caller < 4; ++caller) {
    run_ranks(4,
              [caller](Session& session) {
                std::vector<float> values{3};
                std::vector<float> unnamed{4};
                std::vector<HandlePtr> handles;
                if (session.topology().rank() == caller) {
                  handles.push_back(session.submit(allreduce("x", ref(values), ReduceOp::kAverage)));
                  handles.push_back(session.submit(allreduce("", ref(unnamed))));
                }
                run(session, join());
                for (const HandlePtr& handle : handles) {
                  EXPECT_TRUE(handle->done());
                  wait(session, handle);
                }
                EXPECT_EQ(values[0], 3.0f);
                EXPECT_EQ(unnamed[0], 4.0f);
                run(session, barrier());
              },
              {.host_split = {2, 2}});
  }
}

/// Until `joined` have joined, for they never call this.
void await_joined(Session& session) {
  run(session, barrier("the others have joined"));
}

TEST(Join, a_broadcast_that_its_root_called_before_it_joined_works) {
  for (const std::vector<int>& split : {std::vector<int>{4}, {2, 2}, {1, 1, 2}}) {
    run_ranks(4,
              [](Session& session) {
                const int rank = session.topology().rank();
                std::vector<double> fact{rank + 0.5};
                // Rank 3 calls and joins; rank 2 joins without; the others call when both have joined.
                HandlePtr handle;
                if (rank == 3) handle = session.submit(broadcast("fact", ref(fact), 3));
                if (rank < 2) {
                  await_joined(session);
                  handle = session.submit(broadcast("fact", ref(fact), 3));
                }
                const HandlePtr joining = session.submit(join());
                if (handle) {
                  EXPECT_EQ(error_of(session, handle), "");
                  EXPECT_EQ(fact[0], 3.5);
                }
                wait(session, joining);
                run(session, barrier());
              },
              {.host_split = split});
  }
}

TEST(Join, a_mismatch_names_a_rank_that_called_before_it_joined) {
  for (const std::vector<int>& split : {std::vector<int>{4}, {2, 2}, {1, 1, 2}}) {
    run_ranks(4,
              [](Session& session) {
                const int rank = session.topology().rank();
                std::vector<float> values(rank == 3 ? 7 : 2);
                HandlePtr handle;
                if (rank == 3) handle = session.submit(allreduce("x", ref(values)));
                if (rank < 2) {
                  await_joined(session);
                  handle = session.submit(allreduce("x", ref(values)));
                }
                const HandlePtr joining = session.submit(join());
                if (handle) {
                  EXPECT_EQ(error_of(session, handle),
                            shapes_differ("allreduce 'x'", {{"3", "[7]"}, {"0,1", "[2]"}}));
                }
                wait(session, joining);
                run(session, barrier());
              },
              {.host_split = split});
  }
}

TEST(Join, sets_that_hold_all_ranks_do_not_take_part_in_it) {
  run_ranks(3, [](Session& session) {
    const std::int32_t set = add_set(session, {0, 1, 2});
    const int rank = session.topology().rank();
    std::vector<float> values(rank == 1 ? 3 : 2, 1.0f);
    const HandlePtr early = rank == 1 ? session.submit(on(set, allreduce("x", ref(values)))) : nullptr;
    if (rank != 1) {
      await_joined(session);
      EXPECT_EQ(error_of(session, on(set, allreduce("x", ref(values)))),
                shapes_differ("allreduce 'x'", {{"1", "[3]"}, {"0,2", "[2]"}}));
    }
    run(session, join());
    if (early) {
      EXPECT_NE(error_of(session, early), "");
    }
    std::vector<float> good{1};
    run(session, on(set, allreduce("x", ref(good))));
    EXPECT_EQ(good[0], 3.0f);
  });
}

TEST(Join, a_leaving_rank_fails_it_on_all_others) {
  for (int leaver = 0; leaver < 3; ++leaver) {
    run_ranks(3, [leaver](Session& session) {
      run(session, barrier());
      if (session.topology().rank() == leaver) return session.leave();
      EXPECT_THAT(error_of(session, join()), HasSubstr(fmt::format("rank {} left the job", leaver)));
    });
  }
}

TEST(Join, by_horovods_rule_divides_by_all_ranks_and_lets_only_allreduce_and_barrier_go_on) {
  run_ranks(3,
            [](Session& session) {
              if (session.topology().rank() != 1) {
                std::vector<double> values{3};
                run(session, allreduce("x", ref(values), ReduceOp::kAverage));
                EXPECT_EQ(values[0], 2.0);
                run(session, barrier());
                for (const Call& call :
                     {allgather("x", ref(values)), broadcast("x", ref(values), 0),
                      alltoall("x", ref(values), {1, 0, 0}), reducescatter("x", ref(values), ref(values))})
                  EXPECT_THAT(error_of(session, call), HasSubstr("ranks 1 have joined"));
                run(session, allreduce("x", ref(values)));
              }
              run(session, join());
              std::vector<double> values{3};
              run(session, allreduce("x", ref(values), ReduceOp::kAverage));
              EXPECT_EQ(values[0], 3.0);
              run(session, allgather("x", ref(values)));
            },
            {.settings = {.joins_like_horovod = true}});
}

}  // namespace
}  // namespace hora::testing
