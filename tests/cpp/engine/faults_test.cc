// What a rank does to itself on purpose, and what the others make of it.

#include "base/faults.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>
#include <ostream>
#include <string>

#include "api/session.h"
#include "support/calls.h"
#include "support/run_ranks.h"

namespace hora::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Long against what anything here needs, short against the deadlines of the engine.
constexpr std::chrono::seconds kSoon{4};

struct Spread {
  std::vector<int> host_split;
  bool shared_memory;
};

void PrintTo(const Spread& spread, std::ostream* out) {
  *out << spread.host_split.size() << " hosts, shared memory " << spread.shared_memory;
}

class FaultyJob : public ::testing::TestWithParam<Spread> {
 protected:
  static void run_with(const std::string& faults, const std::function<void(Session&)>& body) {
    RunOptions options{.host_split = GetParam().host_split, .shared_memory = GetParam().shared_memory};
    options.settings.faults = parse_faults(faults);
    options.settings.stalls.warning = 200ms;
    run_ranks(3, body, options);
  }
};

INSTANTIATE_TEST_SUITE_P(On, FaultyJob,
                         ::testing::Values(Spread{{3}, false}, Spread{{3}, true}, Spread{{2, 1}, true},
                                           Spread{{1, 1, 1}, false}));

TEST_P(FaultyJob, is_only_late_after_delays) {
  run_with(
      "after_agreement:0:2:delay=0.02,in_batch:1:3:delay=0.02,before_completion:2:2:delay=0.02,"
      "before_message:1:2:delay=0.02,in_departure:1:1:delay=0.02",
      [](Session& session) {
        for (int step = 0; step < 5; ++step) {
          std::vector<float> values(1000, static_cast<float>(session.topology().rank() + step));
          run(session, allreduce("x", ref(values)));
          EXPECT_EQ(values, std::vector<float>(1000, static_cast<float>(3 + 3 * step)));
        }
      });
}

TEST_P(FaultyJob, ends_as_soon_as_all_are_through_when_a_root_leaves_after_its_part) {
  for (int root = 0; root < 3; ++root) {
    const TimePoint start = Clock::now();
    run_with(fmt::format("in_batch:{}:1:delay=0.3", (root + 1) % 3), [root](Session& session) {
      const bool is_root = session.topology().rank() == root;
      std::vector<float> values(100'000, is_root ? 7.0f : 0.0f);
      run(session, broadcast("x", ref(values), root));
      EXPECT_EQ(values, std::vector<float>(100'000, 7.0f));
      if (is_root) session.leave();
    });
    EXPECT_LT(Clock::now() - start, kSoon);
  }
}

TEST_P(FaultyJob, notices_a_missing_message_and_names_its_sender) {
  for (int sender = 0; sender < 3; ++sender) {
    run_with(fmt::format("before_message:{}:2:drop", sender), [sender](Session& session) {
      const TimePoint start = Clock::now();
      std::string error;
      for (int step = 0; error.empty() && Clock::now() < start + kSoon; ++step) {
        std::vector<float> values(1000, 1.0f);
        const std::optional<Error> failure =
            failure_of(session, allreduce("t" + std::to_string(step), ref(values)));
        if (failure) error = failure->what();
      }
      EXPECT_THAT(error,
                  HasSubstr(fmt::format("rank {} sent what cannot be: damaged message, or one before it "
                                        "is missing",
                                        sender)));
    });
  }
}

TEST_P(FaultyJob, notices_a_changed_message_and_names_its_sender) {
  for (int sender = 0; sender < 3; ++sender) {
    run_with(fmt::format("before_message:{}:2:corrupt", sender), [sender](Session& session) {
      const TimePoint start = Clock::now();
      std::string error;
      for (int step = 0; error.empty() && Clock::now() < start + kSoon; ++step) {
        std::vector<float> values(1000, 1.0f);
        const std::optional<Error> failure =
            failure_of(session, allreduce("t" + std::to_string(step), ref(values)));
        if (failure) error = failure->what();
      }
      EXPECT_THAT(error, HasSubstr(fmt::format("rank {} sent what cannot be: damaged message", sender)));
    });
  }
}

// Rows of each rank, so that the results of all ranks together are large.
constexpr std::int64_t kRows = 100'000;

TEST_P(FaultyJob, fails_an_allgather_alone_when_a_rank_has_no_memory_for_the_result) {
  run_with("in_allocation:1:2:fail", [](Session& session) {
    for (int call = 1; call <= 3; ++call) {
      std::vector<float> values(kRows, static_cast<float>(session.topology().rank()));
      const HandlePtr handle = session.submit(allgather("x", ref(values)));
      const std::string error = error_of(session, handle);
      if (call == 2) {
        EXPECT_EQ(error, "allgather 'x': rank 1 has not got 1200000 bytes of memory for its result");
        EXPECT_EQ(handle->error()->kind(), ErrorKind::kMismatch);
        continue;
      }
      ASSERT_EQ(error, "");
      const auto* const gathered = reinterpret_cast<const float*>(handle->outputs().front().data.get());
      EXPECT_EQ(std::accumulate(gathered, gathered + 3 * kRows, 0.0), 3.0 * kRows);
    }
  });
}

TEST_P(FaultyJob, fails_an_alltoall_alone_when_a_rank_has_no_memory_for_the_result) {
  run_with("in_allocation:2:1:fail", [](Session& session) {
    for (int call = 1; call <= 2; ++call) {
      // Rank 2 gets nearly nothing.
      std::vector<float> values(2 * kRows + 1, 1.0f);
      const HandlePtr handle = session.submit(alltoall("x", ref(values), {kRows, kRows, 1}));
      const std::string error = error_of(session, handle);
      if (call == 1) {
        EXPECT_EQ(error, "alltoall 'x': rank 2 has not got 12 bytes of memory for its result");
        continue;
      }
      ASSERT_EQ(error, "");
      const std::int64_t rows = session.topology().rank() == 2 ? 3 : 3 * kRows;
      EXPECT_EQ(handle->outputs().front().shape, Shape{rows});
    }
  });
}

TEST(FaultyRank, that_the_job_has_not_is_refused_on_all_ranks) {
  RunOptions options;
  options.settings.faults = parse_faults("in_batch:2:1:delay=1");
  try {
    run_ranks(2, [](Session&) {}, options);
    FAIL() << "was accepted";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("HORA_FAULTS: 'in_batch:2:1:delay=1': the job has the ranks 0 to 1"));
  }
}

}  // namespace
}  // namespace hora::testing
