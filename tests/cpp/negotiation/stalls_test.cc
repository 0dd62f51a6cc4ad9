// Calls that some ranks do not make: what the root gets to know, and when.

#include <gmock/gmock.h>

#include <set>

#include "support/virtual_job.h"

namespace hora::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Eleven ranks on four hosts; hosts and their ranks are chains or bushes.
class Stalls : public ::testing::TestWithParam<int> {
 protected:
  static constexpr Duration kWarning = 10s;

  explicit Stalls(StallTimes times = {kWarning, 0s}) : job_(shape(), options(times)) {}

  [[nodiscard]] static JobShape shape() { return {{3, 4, 1, 3}, GetParam()}; }
  [[nodiscard]] static NegotiatorOptions options(StallTimes times) {
    NegotiatorOptions made = negotiator_options();
    made.stalls = times;
    return made;
  }

  void submit_but(const std::set<int>& missing, const Request& request) {
    for (int rank = 0; rank < job_.size(); ++rank) {
      if (missing.contains(rank)) continue;
      job_.submit(rank, request);
      waits_.insert(rank);
    }
    job_.settle();
  }

  /// Until something has been told at the root, or the time is over.
  Negotiator::Stalls pass(Duration at_most) {
    for (const TimePoint until = now_ + at_most; now_ < until;) {
      now_ += job_.at(0).tick();
      for (int rank = 0; rank < job_.size(); ++rank) job_.tick(rank, now_, waits_.contains(rank));
      job_.settle();
      Negotiator::Stalls told = job_.take_stalls(0);
      if (!told.is_empty()) return told;
    }
    return {};
  }

  VirtualJob job_;
  TimePoint now_ = TimePoint() + 1000s;
  std::set<int> waits_;
};

TEST_P(Stalls, are_told_with_exactly_the_missing_ranks) {
  submit_but({4, 5, 9}, named_request("a"));
  submit_but({0, 7}, named_request("b"));
  const TimePoint begun = now_;
  const Negotiator::Stalls told = pass(30s);
  ASSERT_THAT(told.calls, SizeIs(2));
  for (const StalledCall& call : told.calls) {
    const bool is_a = call.key.name == "a";
    EXPECT_EQ(call.missing, is_a ? RankSet({4, 5, 9}) : RankSet({0, 7}));
    EXPECT_EQ(call.made_by.size() + call.missing.size(), job_.size());
    EXPECT_EQ(call.op, OpKind::kAllreduce);
  }
  EXPECT_GE(now_ - begun, kWarning);
  EXPECT_LE(now_ - begun, kWarning + 6s);
  EXPECT_FALSE(told.is_over);
}

TEST_P(Stalls, are_told_once_in_each_interval_until_they_end) {
  submit_but({6}, named_request("a"));
  EXPECT_THAT(pass(30s).calls, SizeIs(1));
  const TimePoint first = now_;
  EXPECT_THAT(pass(30s).calls, SizeIs(1));
  EXPECT_NEAR(std::chrono::duration<double>(now_ - first).count(), 10, 1);
  job_.submit(6, named_request("a"));
  job_.settle();
  EXPECT_EQ(job_.batches(6).size(), 1u);
  EXPECT_TRUE(pass(30s).is_empty());
  // The next call of the name begins anew.
  submit_but({2}, named_request("a"));
  const Negotiator::Stalls told = pass(30s);
  ASSERT_THAT(told.calls, SizeIs(1));
  EXPECT_EQ(told.calls.front().missing, RankSet({2}));
}

TEST_P(Stalls, nothing_is_told_of_calls_that_come_in_time) {
  for (int round = 0; round < 10; ++round) {
    submit_but({5}, named_request("a"));
    EXPECT_TRUE(pass(9s).is_empty());
    job_.submit(5, named_request("a"));
    job_.settle();
  }
}

TEST_P(Stalls, ranks_that_have_joined_are_not_missing) {
  job_.join(8);
  submit_but({3, 8}, named_request("a"));
  const Negotiator::Stalls told = pass(30s);
  ASSERT_FALSE(told.calls.empty());
  EXPECT_EQ(told.calls.front().key.name, "a");
  EXPECT_EQ(told.calls.front().missing, RankSet({3}));
}

TEST_P(Stalls, a_join_waits_for_those_that_do_nothing) {
  for (int rank = 0; rank < job_.size(); ++rank) {
    if (rank != 10) job_.join(rank);
  }
  job_.settle();
  const Negotiator::Stalls told = pass(30s);
  ASSERT_THAT(told.calls, SizeIs(1));
  EXPECT_EQ(told.calls.front().key, Key::join());
  EXPECT_EQ(told.calls.front().missing, RankSet({10}));
}

TEST_P(Stalls, only_members_of_a_process_set_are_missing) {
  submit_but({}, set_request(OpKind::kAddProcessSet, 1, {1, 5, 6, 10}));
  ASSERT_THAT(job_.batches(0), SizeIs(1));
  for (const int rank : {1, 6}) job_.submit(rank, on(1, named_request("a")));
  job_.settle();
  const Negotiator::Stalls told = pass(30s);
  ASSERT_THAT(told.calls, SizeIs(1));
  EXPECT_EQ(told.calls.front().missing, RankSet({5, 10}));
}

TEST_P(Stalls, ranks_can_be_asked_and_answer_to_the_root) {
  job_.at(0).ask({7, RankSet({0, 2, 6, 10})});
  job_.collect(0);
  job_.settle();
  for (int rank = 0; rank < job_.size(); ++rank) {
    const std::optional<Question> asked = job_.take_stalls(rank).question;
    ASSERT_EQ(asked.has_value(), (RankSet({0, 2, 6, 10}).contains(rank))) << rank;
    if (!asked) continue;
    job_.at(rank).on_answer({asked->number, rank, 3, rank == 6, "here"});
    job_.collect(rank);
  }
  job_.settle();
  const std::vector<Answer> answers = job_.take_stalls(0).answers;
  ASSERT_THAT(answers, SizeIs(4));
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.question, 7u);
    EXPECT_EQ(answer.batches, 3u);
    EXPECT_EQ(answer.is_in_batch, answer.rank == 6);
    EXPECT_EQ(answer.where, "here");
  }
}

TEST_P(Stalls, a_parent_that_does_not_answer_is_noticed) {
  job_.submit(10, named_request("a"));
  job_.settle();
  std::optional<int> silent;
  for (int step = 0; step < 40 && !silent; ++step) {
    now_ += job_.at(0).tick();
    job_.tick(10, now_, true);  // nobody else does anything
    silent = job_.take_stalls(10).silent_parent;
  }
  const Topology topology = Topology::split(10, job_.size(), shape().ranks_per_host);
  EXPECT_EQ(silent, Tree(topology, GetParam()).parent());
}

TEST_P(Stalls, a_parent_that_does_not_answer_is_noticed_within_a_batch_too) {
  job_.at(10).on_lasting({7, kGlobalSet, 11, "allreduce 'a'"});
  std::optional<int> silent;
  for (int step = 0; step < 40 && !silent; ++step) {
    now_ += job_.at(0).tick();
    job_.tick(10, now_, false);
    silent = job_.take_stalls(10).silent_parent;
  }
  const Topology topology = Topology::split(10, job_.size(), shape().ranks_per_host);
  EXPECT_EQ(silent, Tree(topology, GetParam()).parent());
}

TEST_P(Stalls, a_parent_that_hears_of_a_batch_is_not_silent) {
  job_.at(10).on_lasting({7, kGlobalSet, 11, "allreduce 'a'"});
  EXPECT_THAT(pass(30s).batches, SizeIs(1));
  for (int step = 0; step < 40; ++step) {
    now_ += job_.at(0).tick();
    job_.tick(10, now_, false);
    job_.settle();
    EXPECT_EQ(job_.take_stalls(10).silent_parent, std::nullopt);
  }
}

class StallsWithAbort : public Stalls {
 protected:
  StallsWithAbort() : Stalls({0s, 4s}) {}
};

TEST_P(StallsWithAbort, end_the_job) {
  submit_but({1}, named_request("a"));
  const TimePoint begun = now_;
  const Negotiator::Stalls told = pass(30s);
  EXPECT_TRUE(told.is_over);
  ASSERT_THAT(told.calls, SizeIs(1));
  EXPECT_EQ(told.calls.front().missing, RankSet({1}));
  EXPECT_GE(now_ - begun, 4s);
  EXPECT_LE(now_ - begun, 6s);
}

class StallsOff : public Stalls {
 protected:
  StallsOff() : Stalls({0s, 0s}) {}
};

TEST_P(StallsOff, tell_nothing) {
  submit_but({1}, named_request("a"));
  const std::uint64_t before = job_.messages();
  EXPECT_TRUE(pass(1000s).is_empty());
  EXPECT_EQ(job_.messages(), before);
}

const auto kArities = ::testing::Values(1, 2, 16);
INSTANTIATE_TEST_SUITE_P(, Stalls, kArities);
INSTANTIATE_TEST_SUITE_P(, StallsWithAbort, kArities);
INSTANTIATE_TEST_SUITE_P(, StallsOff, kArities);

}  // namespace
}  // namespace hora::testing
