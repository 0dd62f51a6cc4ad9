// Collectives among some of the ranks, and how sets come and go.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "api/session.h"
#include "support/calls.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/sentence.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool is_member(Session& session, const std::vector<int>& ranks) {
  return std::ranges::binary_search(ranks, session.topology().rank());
}

/// No rank leaves before all are through, members or not.
void run_job(int size, const std::function<void(Session&)>& body, const RunOptions& options = {}) {
  run_ranks(
      size,
      [&](Session& session) {
        body(session);
        run(session, barrier("end"));
      },
      options);
}

/// Two disjoint sets, two that overlap with both, a single rank and all ranks once more, of five ranks.
const std::vector<std::vector<int>> kSets{{0, 1}, {2, 3}, {1, 2, 4}, {0, 3, 4}, {4}, {0, 1, 2, 3, 4}};

std::vector<std::int32_t> add_all(Session& session) {
  std::vector<std::int32_t> ids;
  for (const std::vector<int>& ranks : kSets) ids.push_back(add_set(session, ranks));
  return ids;
}

/// Every op once or more; ranks count within the set.
void start_every_op(Grid& grid, int size) {
  const auto members = static_cast<std::size_t>(size);
  std::vector<std::int64_t> rows(members);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<std::vector<std::int64_t>> splits(members, rows);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt32, DType::kBool}) {
    for (const ReduceOp op : ops_of(dtype)) grid.allreduce({dtype, op, 101, true});
    for (int root = 0; root < size; ++root) grid.broadcast(dtype, 37, root, false);
    grid.allgather(dtype, rows, 3);
    grid.alltoall(dtype, splits, 3);
    grid.reducescatter({dtype, ReduceOp::kSum, 2 * size + 1, 3});
  }
}

class ProcessSetsOnHosts : public ::testing::TestWithParam<std::vector<int>> {};

INSTANTIATE_TEST_SUITE_P(Of, ProcessSetsOnHosts,
                         ::testing::Values(std::vector<int>{5}, std::vector<int>{3, 2},
                                           std::vector<int>{1, 1, 1, 1, 1}),
                         [](const auto& info) { return fmt::format("{}_hosts", info.param.size()); });

TEST_P(ProcessSetsOnHosts, every_op_works_among_the_members_alone) {
  for (const std::uint64_t threshold : {0, 1 << 20}) {
    run_job(5,
            [](Session& session) {
              const std::vector<std::int32_t> ids = add_all(session);
              for (std::size_t set = 0; set < kSets.size(); ++set) {
                if (!is_member(session, kSets[set])) continue;
                Grid grid(session, {.process_set = ids[set]});
                start_every_op(grid, static_cast<int>(kSets[set].size()));
                grid.finish();
                run(session, on(ids[set], barrier()));
              }
            },
            {.host_split = GetParam(), .settings = {.fusion_threshold = threshold}});
  }
}

/// Allreduce of one number in a set, in flight.
struct Sum {
  std::vector<std::int32_t> value;
  std::int32_t expected;
  HandlePtr handle;
};

TEST_P(ProcessSetsOnHosts, named_calls_of_all_sets_may_be_in_flight_in_any_order_on_each_rank) {
  constexpr int kNames = 5;
  run_job(5,
          [](Session& session) {
            const std::vector<std::int32_t> ids = add_all(session);
            const int rank = session.topology().rank();
            std::mt19937 random(static_cast<unsigned>(rank + 1));
            for (int round = 0; round < 5; ++round) {
              // The same names in every set.
              std::vector<std::pair<std::size_t, int>> order;
              for (std::size_t set = 0; set < kSets.size(); ++set) {
                for (int name = 0; is_member(session, kSets[set]) && name < kNames; ++name)
                  order.emplace_back(set, name);
              }
              std::ranges::shuffle(order, random);
              std::vector<Sum> sums(order.size());
              for (std::size_t at = 0; at < order.size(); ++at) {
                const auto [set, name] = order[at];
                const int factor = 1000 * static_cast<int>(set) + name;
                const auto& ranks = kSets[set];
                sums[at] = {
                    {(rank + 1) * factor},
                    std::accumulate(ranks.begin(), ranks.end(), static_cast<int>(ranks.size())) * factor,
                    {}};
                sums[at].handle =
                    session.submit(on(ids[set], allreduce("t" + std::to_string(name), ref(sums[at].value))));
              }
              std::ranges::shuffle(sums, random);
              for (Sum& sum : sums) {
                wait(session, sum.handle);
                EXPECT_EQ(sum.value[0], sum.expected);
              }
            }
          },
          {.host_split = GetParam()});
}

TEST_P(ProcessSetsOnHosts, unnamed_calls_pair_in_the_order_of_their_set_however_sets_are_interleaved) {
  constexpr int kCalls = 12;
  run_job(5,
          [](Session& session) {
            const std::vector<std::int32_t> ids = add_all(session);
            const int rank = session.topology().rank();
            std::mt19937 random(static_cast<unsigned>(rank + 1));
            std::vector<std::size_t> order;  // the global set is the last
            for (std::size_t set = 0; set <= kSets.size(); ++set) {
              if (set == kSets.size() || is_member(session, kSets[set]))
                order.insert(order.end(), kCalls, set);
            }
            std::ranges::shuffle(order, random);
            std::vector<int> calls(kSets.size() + 1);
            std::vector<Sum> sums(order.size());
            for (std::size_t at = 0; at < order.size(); ++at) {
              const std::size_t set = order[at];
              const bool is_global = set == kSets.size();
              const int number = ++calls[set];
              sums[at] = {{number}, number * (is_global ? 5 : static_cast<int>(kSets[set].size())), {}};
              sums[at].handle =
                  session.submit(on(is_global ? kGlobalSet : ids[set], allreduce("", ref(sums[at].value))));
            }
            for (Sum& sum : sums) {
              wait(session, sum.handle);
              EXPECT_EQ(sum.value[0], sum.expected);
            }
          },
          {.host_split = GetParam()});
}

TEST(ProcessSets, all_ranks_get_the_same_id_and_may_ask_for_the_ranks) {
  run_job(3, [](Session& session) {
    std::vector<std::int64_t> ids;
    for (const std::vector<int>& ranks : {std::vector<int>{0, 2}, {1}, {0, 1, 2}}) {
      const std::int32_t id = add_set(session, ranks);
      EXPECT_NE(id, kGlobalSet);
      EXPECT_EQ(session.process_set(id), ranks);
      ids.push_back(id);
    }
    EXPECT_EQ(session.process_set(kGlobalSet), (std::vector<int>{0, 1, 2}));
    const std::vector<std::int64_t> own = ids;
    run(session, broadcast("ids", ref(ids), 0));
    EXPECT_EQ(ids, own);
  });
}

TEST(ProcessSets, a_set_added_again_gets_a_new_id_and_so_does_one_that_was_removed) {
  run_job(3, [](Session& session) {
    const std::int32_t first = add_set(session, {0, 1});
    const std::int32_t second = add_set(session, {0, 1});
    EXPECT_NE(first, second);
    run(session, remove_process_set({0, 1}));
    run(session, remove_process_set({0, 1}));
    const std::int32_t third = add_set(session, {0, 1});
    EXPECT_NE(third, first);
    EXPECT_NE(third, second);
    EXPECT_EQ(session.process_set(third), (std::vector<int>{0, 1}));
    EXPECT_THROW(static_cast<void>(session.process_set(first)), Error);
    EXPECT_THROW(static_cast<void>(session.process_set(second)), Error);
  });
}

TEST(ProcessSets, a_rank_that_is_no_member_is_refused_and_the_members_go_on) {
  run_job(4, [](Session& session) {
    const std::int32_t set = add_set(session, {1, 2});
    std::vector<float> values{1};
    if (!is_member(session, {1, 2})) {
      const Refusal refusal = refusal_of(session, on(set, allreduce("x", ref(values))));
      EXPECT_EQ(refusal.kind, ErrorKind::kInvalidArgument);
      EXPECT_EQ(refusal.text, fmt::format("rank {} is not a member of the process set of the ranks 1,2",
                                          session.topology().rank()));
      session.refuse(OpKind::kAllreduce, "x", set, "nobody listens");
    } else {
      EXPECT_EQ(error_of(session, on(set, allreduce("x", ref(values)))), "");
      EXPECT_EQ(values[0], 2.0f);
    }
    std::vector<float> after{1};
    EXPECT_EQ(error_of(session, allreduce("x", ref(after))), "");
    EXPECT_EQ(after[0], 4.0f);
  });
}

TEST(ProcessSets, a_set_that_does_not_exist_is_refused) {
  run_job(2, [](Session& session) {
    std::vector<float> values{1};
    for (const std::int32_t unknown : {1, -1, 7}) {
      const Refusal refusal = refusal_of(session, on(unknown, allreduce("x", ref(values))));
      EXPECT_EQ(refusal.kind, ErrorKind::kInvalidArgument);
      EXPECT_EQ(refusal.text, fmt::format("there is no process set {}; add it first", unknown));
      session.refuse(OpKind::kAllreduce, "x", unknown, "nobody listens");
    }
    EXPECT_EQ(error_of(session, allreduce("x", ref(values))), "");
  });
}

TEST(ProcessSets, roots_are_ranks_of_the_job_and_must_be_members) {
  run_job(4, [](Session& session) {
    const std::int32_t set = add_set(session, {1, 3});
    if (!is_member(session, {1, 3})) return;
    std::vector<float> values{static_cast<float>(session.topology().rank())};
    EXPECT_EQ(error_of(session, on(set, broadcast("x", ref(values), 3))), "");
    EXPECT_EQ(values[0], 3.0f);
    EXPECT_EQ(refusal_of(session, on(set, broadcast("x", ref(values), 0))).text,
              "broadcast 'x': root_rank 0 is not one of the ranks 1,3");
    EXPECT_EQ(error_of(session, on(set, broadcast("x", ref(values), 1))), "");
  });
}

TEST(ProcessSets, a_name_may_be_in_use_once_in_each) {
  run_job(3, [](Session& session) {
    const std::int32_t sets[] = {kGlobalSet, add_set(session, {0, 1, 2}), add_set(session, {0, 1, 2})};
    std::vector<float> values[] = {{1}, {2}, {3}};
    std::vector<HandlePtr> handles;
    for (std::size_t at = 0; at < 3; ++at) {
      handles.push_back(session.submit(on(sets[at], allreduce("x", ref(values[at])))));
      std::vector<float> again{1};
      EXPECT_EQ(refusal_of(session, on(sets[at], allreduce("x", ref(again)))).kind,
                ErrorKind::kInvalidArgument);
    }
    wait(session, handles[1]);
    std::vector<float> again{1};
    EXPECT_EQ(refusal_of(session, on(sets[0], allreduce("x", ref(again)))).kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(error_of(session, on(sets[1], allreduce("x", ref(again)))), "");
    wait(session, handles[0]);
    wait(session, handles[2]);
    for (std::size_t at = 0; at < 3; ++at) EXPECT_EQ(values[at][0], 3.0f * static_cast<float>(at + 1));
  });
}

TEST(ProcessSets, a_mismatch_is_an_error_among_the_members_and_names_them) {
  run_job(5,
          [](Session& session) {
            const std::int32_t set = add_set(session, {0, 2, 4});
            if (!is_member(session, {0, 2, 4})) return;
            std::vector<float> values(session.topology().rank() == 4 ? 3 : 2);
            for (int round = 0; round < 2; ++round) {
              EXPECT_EQ(error_of(session, on(set, allreduce("x", ref(values)))),
                        shapes_differ("allreduce 'x'", {{"4", "[3]"}, {"0,2", "[2]"}}));
            }
            std::vector<float> good{1};
            EXPECT_EQ(error_of(session, on(set, allreduce("x", ref(good)))), "");
            EXPECT_EQ(good[0], 3.0f);
          },
          {.host_split = {1, 2, 2}});
}

TEST(ProcessSets, a_refused_call_is_an_error_among_the_members) {
  run_job(4, [](Session& session) {
    const std::int32_t set = add_set(session, {1, 2, 3});
    std::vector<float> values{1};
    if (session.topology().rank() == 2) {
      session.refuse(OpKind::kAllreduce, "", set, "no");
    } else if (session.topology().rank() != 0) {
      EXPECT_EQ(error_of(session, on(set, allreduce("", ref(values)))),
                "allreduce unnamed call 1: rank 2 refused the call (no)");
    }
    if (session.topology().rank() != 0) {
      EXPECT_EQ(error_of(session, on(set, allreduce("", ref(values)))), "");
      EXPECT_EQ(values[0], 3.0f);
    }
  });
}

TEST(ProcessSets, removing_one_fails_what_is_pending_in_it_and_later_calls_are_refused) {
  for (const bool is_named : {true, false}) {
    run_job(4,
            [is_named](Session& session) {
              const std::int32_t set = add_set(session, {0, 1, 3});
              const std::int32_t other = add_set(session, {0, 1, 3});
              static_cast<void>(other);
              std::vector<float> values{1};
              HandlePtr pending;
              // Rank 3 never calls.
              if (session.topology().rank() < 2)
                pending = session.submit(on(set, allreduce(is_named ? "x" : "", ref(values))));
              run(session, barrier("some have called"));
              // Both sets of these ranks.
              run(session, remove_process_set({0, 1, 3}));
              run(session, remove_process_set({0, 1, 3}));
              if (pending) {
                const std::string error = error_of(session, pending);
                EXPECT_THAT(error, StartsWith(is_named ? "allreduce 'x': " : "allreduce unnamed call 1: "));
                EXPECT_THAT(error, HasSubstr("process set was removed"));
                EXPECT_EQ(pending->error()->kind(), ErrorKind::kMismatch);
                EXPECT_EQ(values[0], 1.0f);
              }
              EXPECT_EQ(refusal_of(session, on(set, allreduce("x", ref(values)))).text,
                        fmt::format("there is no process set {}; add it first", set));
              EXPECT_EQ(error_of(session, allreduce("x", ref(values))), "");
            },
            {.host_split = {2, 2}});
  }
}

TEST(ProcessSets, removing_one_also_fails_a_call_that_stands_behind_a_refused_one_of_its_name) {
  run_job(2, [](Session& session) {
    const std::int32_t set = add_set(session, {0, 1});
    std::vector<float> values{1};
    HandlePtr pending;
    if (session.topology().rank() == 0) {
      session.refuse(OpKind::kAllreduce, "x", set, "no");
      pending = session.submit(on(set, allreduce("x", ref(values))));
    }
    run(session, barrier("rank 0 has called"));
    run(session, remove_process_set({0, 1}));
    if (pending) {
      EXPECT_THAT(error_of(session, pending), HasSubstr("process set was removed"));
    }
  });
}

TEST(ProcessSets, removing_one_while_calls_are_under_way_ends_each_call_alike_on_all_members) {
  constexpr std::size_t kCalls = 10;
  for (int round = 0; round < 20; ++round) {
    run_job(3, [round](Session& session) {
      const std::int32_t set = add_set(session, {0, 1, 2});
      std::vector<std::vector<float>> values(kCalls, std::vector<float>{1});
      std::vector<HandlePtr> handles;
      // Each rank asks for the removal at another place among its calls.
      const std::size_t removal = static_cast<std::size_t>(session.topology().rank() * 3 + round) % kCalls;
      HandlePtr removing;
      for (std::size_t call = 0; call < kCalls; ++call) {
        if (call == removal) removing = session.submit(remove_process_set({0, 1, 2}));
        try {
          handles.push_back(session.submit(on(set, allreduce("", ref(values[call])))));
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("there is no process set"));
        }
      }
      wait(session, removing);
      std::vector<std::int32_t> succeeded(kCalls, 0);
      for (std::size_t call = 0; call < handles.size(); ++call) {
        const std::string error = error_of(session, handles[call]);
        succeeded[call] = error.empty();
        if (!error.empty()) {
          EXPECT_THAT(error, HasSubstr("process set was removed"));
        }
        EXPECT_EQ(values[call][0], error.empty() ? 3.0f : 1.0f);
      }
      expect_same_on_all_ranks(session, Tensor(DType::kInt32, {kCalls}, [&](std::size_t call) {
                                          return succeeded[call];
                                        }).bytes());
    });
  }
}

TEST(ProcessSets, removing_one_that_is_not_there_is_an_error_on_all_ranks) {
  run_job(3, [](Session& session) {
    EXPECT_EQ(error_of(session, remove_process_set({0, 2})),
              "remove_process_set: there is no set of the ranks 0,2");
    EXPECT_EQ(error_of(session, remove_process_set({0, 1, 2})),
              "remove_process_set: there is no set of the ranks 0-2");
    std::vector<float> values{1};
    EXPECT_EQ(error_of(session, allreduce("x", ref(values))), "");
  });
}

TEST(ProcessSets, wrong_ranks_are_refused_and_the_other_ranks_hear_why) {
  run_job(3, [](Session& session) {
    for (const auto& [ranks, error] :
         {std::pair{std::vector<int>{}, "a process set needs at least one rank"},
          std::pair{std::vector<int>{0, 3}, "rank 3 is not one of the ranks 0 to 2"},
          std::pair{std::vector<int>{-1}, "rank -1 is not one of the ranks 0 to 2"}}) {
      if (session.topology().rank() == 1) {
        const Refusal refusal = refusal_of(session, add_process_set(ranks));
        EXPECT_EQ(refusal.kind, ErrorKind::kInvalidArgument);
        EXPECT_EQ(refusal.text, fmt::format("add_process_set: {}", error));
      } else {
        EXPECT_THAT(error_of(session, add_process_set({0, 1})),
                    HasSubstr(fmt::format("rank 1 refused the call ({})", error)));
      }
    }
    EXPECT_EQ(session.process_set(add_set(session, {0, 1})), (std::vector<int>{0, 1}));
  });
}

TEST(ProcessSets, ranks_that_differ_between_ranks_are_an_error_that_says_how) {
  run_job(3, [](Session& session) {
    const std::string error = error_of(
        session,
        add_process_set(session.topology().rank() == 2 ? std::vector<int>{0, 2} : std::vector<int>{0, 1}));
    EXPECT_EQ(error, with_table("add_process_set unnamed call 1: ranks differ in process set",
                                {{"ranks", "process set"}, {"2", "0,2"}, {"0,1", "0,1"}}));
    EXPECT_EQ(session.process_set(add_set(session, {0, 1})), (std::vector<int>{0, 1}));
  });
}

TEST(ProcessSets, a_leaving_rank_fails_what_is_pending_in_every_set) {
  run_ranks(3, [](Session& session) {
    const std::int32_t set = add_set(session, {0, 2});
    std::vector<float> values{1};
    HandlePtr pending;
    if (session.topology().rank() == 0) pending = session.submit(on(set, allreduce("x", ref(values))));
    run(session, barrier("rank 0 has called"));
    if (session.topology().rank() == 1) return session.leave();
    if (pending) {
      EXPECT_EQ(error_of(session, pending), "allreduce 'x': rank 1 left the job: it was shut down");
    } else {
      EXPECT_THAT(error_of(session, allreduce("y", ref(values))), HasSubstr("rank 1 left the job"));
    }
  });
}

TEST(ProcessSets, results_do_not_depend_on_the_cache_capacity) {
  for (const std::uint64_t capacity : {0, 1, 2, 5, 1000}) {
    run_job(5,
            [](Session& session) {
              const std::vector<std::int32_t> ids = add_all(session);
              for (int round = 0; round < 5; ++round) {
                for (std::size_t set = 0; set < kSets.size(); ++set) {
                  std::vector<std::int32_t> values(static_cast<std::size_t>(1 + round % 2), 1);
                  if (is_member(session, kSets[set])) {
                    run(session, on(ids[set], allreduce("x", ref(values))));
                    EXPECT_THAT(values, Each(static_cast<int>(kSets[set].size())));
                  }
                }
                std::vector<std::int32_t> values(static_cast<std::size_t>(1 + round % 2), 1);
                run(session, allreduce("x", ref(values)));
                EXPECT_THAT(values, Each(5));
              }
            },
            {.host_split = {2, 3}, .settings = {.cache_capacity = capacity}});
  }
}

TEST(ProcessSets, may_come_and_go_many_times) {
  run_job(3, [](Session& session) {
    for (int round = 0; round < 30; ++round) {
      const std::vector<int> ranks = round % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 2};
      const std::int32_t set = add_set(session, ranks);
      if (is_member(session, ranks)) {
        std::vector<float> values{1};
        EXPECT_EQ(error_of(session, on(set, allreduce("x", ref(values)))), "");
        EXPECT_EQ(error_of(session, on(set, allreduce("", ref(values)))), "");
        EXPECT_EQ(values[0], 4.0f);
      }
      run(session, remove_process_set(ranks));
    }
  });
}

}  // namespace
}  // namespace hora::testing
