#include "api/session.h"

#include <gmock/gmock.h>

#include <cfenv>
#include <cstdlib>
#include <thread>

#include "engine/counters.h"
#include "support/calls.h"
#include "support/run_ranks.h"
#include "transport/memory.h"

namespace hora::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class SessionOnRanks : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, SessionOnRanks, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(SessionOnRanks, knows_its_place) {
  run_ranks(GetParam(), [](Session& session) {
    EXPECT_FALSE(session.transport_name().empty());
    const Topology& topology = session.topology();
    const bool has_several = topology.size() > 1 && std::getenv("HORA_TEST_HOSTS") != nullptr;
    EXPECT_EQ(topology.local_size() == topology.size(), !has_several);
    EXPECT_LT(topology.local_rank(), topology.local_size());
  });
}

TEST_P(SessionOnRanks, may_be_ended_without_any_call) {
  for (int round = 0; round < 10; ++round) run_ranks(GetParam(), [](Session&) {});
}

TEST_P(SessionOnRanks, sessions_may_follow_one_another) {
  for (int round = 0; round < 5; ++round) {
    run_ranks(GetParam(), [round](Session& session) {
      std::vector<std::int32_t> values{round};
      run(session, allreduce("x", ref(values)));
      EXPECT_EQ(values[0], round * session.topology().size());
    });
  }
}

TEST_P(SessionOnRanks, unnamed_calls_pair_in_order) {
  run_ranks(GetParam(), [](Session& session) {
    const int size = session.topology().size();
    std::vector<std::vector<std::int32_t>> tensors;
    for (int number = 0; number < 50; ++number) tensors.push_back({number});
    std::vector<HandlePtr> handles;
    for (auto& tensor : tensors) handles.push_back(session.submit(allreduce("", ref(tensor))));
    for (const HandlePtr& handle : handles) wait(session, handle);
    for (int number = 0; number < 50; ++number)
      EXPECT_EQ(tensors[static_cast<std::size_t>(number)][0], number * size);
  });
}

TEST_P(SessionOnRanks, named_calls_pair_whatever_the_order_of_submission) {
  run_ranks(GetParam(), [](Session& session) {
    const int size = session.topology().size();
    constexpr int kCount = 41;
    std::vector<std::vector<std::int64_t>> tensors(kCount);
    std::vector<HandlePtr> handles;
    for (int step = 0; step < kCount; ++step) {
      // Each rank walks through the names with a stride of its own; 41 is prime.
      const int number = (step * (session.topology().rank() + 1)) % kCount;
      tensors[static_cast<std::size_t>(number)] = {number};
      handles.push_back(session.submit(
          allreduce("t" + std::to_string(number), ref(tensors[static_cast<std::size_t>(number)]))));
    }
    for (const HandlePtr& handle : handles) wait(session, handle);
    for (int number = 0; number < kCount; ++number)
      EXPECT_EQ(tensors[static_cast<std::size_t>(number)][0], number * size);
  });
}

TEST_P(SessionOnRanks, all_ops_may_be_in_flight_together) {
  run_ranks(GetParam(), [](Session& session) {
    const int rank = session.topology().rank();
    const int size = session.topology().size();
    std::vector<float> sum{1};
    std::vector<std::int32_t> row{rank};
    std::vector<double> fact{rank + 0.5};
    std::vector<HandlePtr> handles{session.submit(barrier()), session.submit(allgather("rows", ref(row))),
                                   session.submit(allreduce("sum", ref(sum))),
                                   session.submit(broadcast("fact", ref(fact), size - 1))};
    for (const HandlePtr& handle : handles) wait(session, handle);
    EXPECT_EQ(sum[0], static_cast<float>(size));
    EXPECT_EQ(fact[0], size - 0.5);
    EXPECT_EQ(handles[1]->outputs().front().shape, (Shape{size}));
  });
}

TEST_P(SessionOnRanks, a_cached_tensor_may_change_its_shape_and_change_back) {
  run_ranks(GetParam(), [](Session& session) {
    for (int round = 0; round < 12; ++round) {
      std::vector<float> values(static_cast<std::size_t>(1 + round % 3), 1.0f);
      run(session, allreduce("x", ref(values)));
      EXPECT_THAT(values, Each(static_cast<float>(session.topology().size())));
    }
  });
}

TEST_P(SessionOnRanks, results_do_not_depend_on_the_cache_capacity) {
  for (const std::uint64_t capacity : {0, 1, 2, 1000}) {
    run_ranks(GetParam(),
              [](Session& session) {
                for (int round = 0; round < 5; ++round) {
                  std::vector<std::vector<std::int32_t>> tensors;
                  for (int number = 0; number < 10; ++number) tensors.push_back({number, round});
                  std::vector<HandlePtr> handles;
                  for (std::size_t number = 0; number < 10; ++number)
                    handles.push_back(
                        session.submit(allreduce("t" + std::to_string(number), ref(tensors[number]))));
                  for (const HandlePtr& handle : handles) wait(session, handle);
                  for (int number = 0; number < 10; ++number) {
                    EXPECT_THAT(
                        tensors[static_cast<std::size_t>(number)],
                        ElementsAre(number * session.topology().size(), round * session.topology().size()));
                  }
                }
              },
              {.settings = {.cache_capacity = capacity}});
  }
}

TEST(Session, works_over_uneven_hosts) {
  for (const std::vector<int>& split : {std::vector<int>{3, 2, 2}, {1, 6}, {1, 1, 1, 1, 1, 1, 1}}) {
    run_ranks(7,
              [](Session& session) {
                for (int round = 0; round < 3; ++round) {
                  std::vector<float> values{static_cast<float>(session.topology().rank())};
                  run(session, allreduce("x", ref(values)));
                  EXPECT_EQ(values[0], 21.0f);
                }
              },
              {.host_split = split});
  }
}

TEST(Session, several_threads_of_a_rank_may_submit_at_once) {
  run_ranks(2, [](Session& session) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&session, thread] {
        for (int round = 0; round < 50; ++round) {
          std::vector<std::int32_t> values{thread * 100 + round};
          EXPECT_EQ(error_of(session, allreduce("thread" + std::to_string(thread), ref(values))), "");
          EXPECT_EQ(values[0], 2 * (thread * 100 + round));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(Session, a_wait_ends_at_its_deadline_and_the_operation_goes_on) {
  run_ranks(2, [](Session& session) {
    std::vector<float> values{1};
    HandlePtr handle;
    if (session.topology().rank() == 0) {
      handle = session.submit(allreduce("x", ref(values)));
      EXPECT_FALSE(session.wait_until(*handle, Clock::now()));
      EXPECT_FALSE(session.wait_until(*handle, Clock::now() + std::chrono::milliseconds(1)));
      EXPECT_FALSE(handle->done());
    }
    run(session, barrier("rank 0 has looked"));
    if (!handle) handle = session.submit(allreduce("x", ref(values)));
    wait(session, handle);
    EXPECT_EQ(values[0], 2.0f);
  });
}

TEST(Session, a_finished_handle_stays_finished_after_the_session_has_ended) {
  run_ranks(2, [](Session& session) {
    std::vector<std::int32_t> values{1};
    const HandlePtr sum = run(session, allreduce("x", ref(values)));
    const HandlePtr rows = run(session, allgather("y", ref(values)));
    session.leave();
    EXPECT_TRUE(sum->done());
    EXPECT_EQ(sum->error(), nullptr);
    EXPECT_EQ(rows->outputs().front().sizes.size(), 2u);
  });
}

TEST(Session, counters_count_tensors_bytes_and_errors) {
  run_ranks(2, [](Session& session) {
    std::vector<float> values(10);
    run(session, allreduce("x", ref(values)));
    run(session, broadcast("y", ref(values), 0));
    std::vector<float> odd(session.topology().rank() == 0 ? 1 : 2);
    EXPECT_NE(error_of(session, allreduce("z", ref(odd))), "");
    EXPECT_EQ(session.counters().tensors, 2u);
    EXPECT_EQ(session.counters().batches, 2u);
    EXPECT_EQ(session.counters().bytes, 80u);
    EXPECT_EQ(session.counters().errors, 1u);
  });
}

TEST(Session, calls_that_are_announced_together_travel_in_one_batch) {
  run_ranks(3, [](Session& session) {
    std::vector<std::vector<float>> values(100, std::vector<float>(10));
    for (const std::uint64_t batches : {1u, 2u}) {
      std::vector<HandlePtr> handles;
      {
        const Session::Together together(session);
        for (std::size_t at = 0; at < values.size(); ++at)
          handles.push_back(session.submit(allreduce("x" + std::to_string(at), ref(values[at]))));
      }
      for (const HandlePtr& handle : handles) wait(session, handle);
      EXPECT_EQ(session.counters().batches, batches);
    }
  });
}

TEST(Session, with_attention_calls_complete_though_no_thread_waits_in_it) {
  run_ranks(3, [](Session& session) {
    const auto completions = std::make_shared<Completions>();
    std::vector<float> values(10, 1.0f);
    for (int round = 0; round < 20; ++round) {
      const HandlePtr handle = session.submit(allreduce("x", ref(values)));
      const Session::Attention attention(session);
      handle->report_to(completions, handle.get());
      EXPECT_THAT(completions->take(), testing::ElementsAre(handle.get()));
      EXPECT_TRUE(handle->done());
      session.release(*handle);
    }
  });
}

TEST(Session, counters_count_the_calls_of_this_rank_that_need_no_description) {
  run_ranks(2, [](Session& session) {
    std::vector<float> values(10);
    Call group = allreduce("group", ref(values));
    group.tensors.resize(5, group.tensors.front());
    for (std::uint64_t round = 0; round < 4; ++round) {
      run(session, allreduce("x", ref(values)));
      run(session, group);
      EXPECT_EQ(session.counters().cache_hits, 2 * round);
    }
  });
}

TEST(Session, results_do_not_depend_on_the_rounding_mode_of_the_thread_that_made_it) {
  std::fesetround(FE_UPWARD);
  Session session(make_local_transport(), {});
  std::fesetround(FE_TONEAREST);
  std::vector<float> values;
  std::vector<float> expected;
  for (int number = 1; number < 100; ++number) {
    values.push_back(static_cast<float>(number));
    expected.push_back(static_cast<float>(number) * 0.1f);
  }
  Call call = allreduce("x", ref(values));
  call.prescale = 0.1;
  run(session, call);
  EXPECT_EQ(values, expected);
}

}  // namespace
}  // namespace hora::testing
