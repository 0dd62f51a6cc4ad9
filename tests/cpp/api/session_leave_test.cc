#include <gmock/gmock.h>

#include <thread>

#include "api/session.h"
#include "support/calls.h"
#include "support/run_ranks.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SessionLeave, fails_what_is_pending_on_the_others_naming_the_rank) {
  for (int leaver = 0; leaver < 3; ++leaver) {
    run_ranks(3, [leaver](Session& session) {
      run(session, barrier());
      if (session.topology().rank() == leaver) return session.leave();
      std::vector<float> values{1};
      const std::string error = error_of(session, allreduce("x", ref(values)));
      EXPECT_THAT(error, HasSubstr(fmt::format("rank {} left the job", leaver)));
    });
  }
}

TEST(SessionLeave, names_tensor_rank_and_reason_of_what_was_pending) {
  run_ranks(3, [](Session& session) {
    std::vector<float> values{1};
    HandlePtr handle;
    if (session.topology().rank() != 1) handle = session.submit(allreduce("x", ref(values)));
    run(session, barrier());
    if (session.topology().rank() == 1) return session.leave();
    EXPECT_EQ(error_of(session, handle), "allreduce 'x': rank 1 left the job: it was shut down");
    EXPECT_EQ(handle->error()->kind(), ErrorKind::kSessionFailed);
  });
}

TEST(SessionLeave, fails_what_is_pending_on_the_leaving_rank) {
  run_ranks(2, [](Session& session) {
    std::vector<float> values{1};
    HandlePtr handle;
    if (session.topology().rank() == 0) handle = session.submit(allreduce("x", ref(values)));
    run(session, barrier());
    if (session.topology().rank() == 1) return;
    session.leave();
    ASSERT_TRUE(handle->done());
    ASSERT_NE(handle->error(), nullptr);
    EXPECT_THAT(handle->error()->what(), StartsWith("allreduce 'x': "));
  });
}

TEST(SessionLeave, afterwards_every_call_throws) {
  run_ranks(2, [](Session& session) {
    session.leave();
    std::vector<float> values{1};
    EXPECT_EQ(refusal_of(session, allreduce("x", ref(values))).kind, ErrorKind::kSessionFailed);
    EXPECT_EQ(refusal_of(session, barrier()).kind, ErrorKind::kSessionFailed);
    session.refuse(OpKind::kAllreduce, "x", kGlobalSet, "it does not matter any more");
  });
}

TEST(SessionLeave, twice_is_once) {
  run_ranks(2, [](Session& session) {
    session.leave();
    session.leave();
  });
}

TEST(SessionLeave, may_be_called_by_two_threads_at_once) {
  for (int round = 0; round < 20; ++round) {
    run_ranks(2, [](Session& session) {
      std::thread other([&] { session.leave(); });
      session.leave();
      other.join();
      std::vector<float> values{1};
      EXPECT_EQ(refusal_of(session, allreduce("x", ref(values))).kind, ErrorKind::kSessionFailed);
    });
  }
}

TEST(SessionLeave, what_was_agreed_before_still_completes_everywhere) {
  for (int round = 0; round < 30; ++round) {
    run_ranks(3, [](Session& session) {
      std::vector<std::vector<float>> tensors(20, std::vector<float>(500, 1.0f));
      std::vector<HandlePtr> handles;
      run(session, barrier());
      try {
        for (std::size_t number = 0; number < 20; ++number)
          handles.push_back(session.submit(allreduce("t" + std::to_string(number), ref(tensors[number]))));
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 0 left the job"));
      }
      // Whatever completes before the departure is right; the rest fails naming the rank.
      if (session.topology().rank() == 0) session.leave();
      for (std::size_t number = 0; number < handles.size(); ++number) {
        const std::string error = error_of(session, handles[number]);
        if (error.empty()) {
          EXPECT_EQ(tensors[number], std::vector<float>(500, 3.0f));
        } else {
          EXPECT_THAT(error, HasSubstr(session.topology().rank() == 0 ? "shut down" : "rank 0 left the job"));
        }
      }
    });
  }
}

TEST(SessionLeave, wakes_a_thread_that_waits) {
  run_ranks(2, [](Session& session) {
    run(session, barrier());
    if (session.topology().rank() == 1) return session.leave();
    std::vector<float> values{1};
    const TimePoint start = Clock::now();
    EXPECT_NE(error_of(session, allreduce("x", ref(values))), "");
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  });
}

TEST(SessionLeave, of_all_ranks_at_different_moments_ends_for_all) {
  for (int round = 0; round < 20; ++round) {
    run_ranks(7,
              [](Session& session) {
                std::vector<float> values{1};
                for (int calls = 0; calls < session.topology().rank(); ++calls) {
                  const std::string error = error_of(session, allreduce("x", ref(values)));
                  if (!error.empty()) {
                    EXPECT_THAT(error, HasSubstr("left the job"));
                  }
                }
              },
              {.host_split = {3, 2, 2}});
  }
}

}  // namespace
}  // namespace hora::testing
