// Ranks that disagree are asked where they made the call before all are told.

#include <gmock/gmock.h>

#include "support/sentence.h"
#include "support/virtual_job.h"

namespace hora::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Seven ranks on three hosts: 0 is the parent of 1, 2, 3 and 5; 4 and 6 are deeper.
class Callers : public ::testing::Test {
 protected:
  Callers() : job_({{3, 2, 2}, 16}, options()) {}

  [[nodiscard]] static NegotiatorOptions options() {
    NegotiatorOptions made = negotiator_options();
    made.caller_of = [](const Key& key) { return key.name + ".py:7"; };
    return made;
  }

  void submit(const std::string& name, int odd) {
    for (int rank = 0; rank < job_.size(); ++rank)
      job_.submit(rank, named_request(name, {rank == odd ? 7 : 2}));
  }

  /// Until the root has asked and has not got all answers.
  void deliver_until_asked() {
    std::mt19937 random;
    while (!job_.at(0).awaits_callers() && job_.deliver(random)) continue;
    ASSERT_TRUE(job_.at(0).awaits_callers());
    ASSERT_FALSE(job_.at(0).can_cut());
  }

  [[nodiscard]] std::string error_of(const std::string& name) const {
    for (const Batch& batch : job_.batches(6)) {
      if (batch.entries.front().key.name == name) return batch.error;
    }
    return "there is no such batch";
  }

  VirtualJob job_;
};

TEST_F(Callers, are_told_to_all_ranks) {
  submit("train", 6);
  job_.settle();
  for (int rank = 0; rank < job_.size(); ++rank) {
    ASSERT_THAT(job_.batches(rank), SizeIs(1));
    EXPECT_EQ(job_.batches(rank).front().error,
              with_table("allreduce 'train': ranks differ in shape", {{"ranks", "shape", "called at"},
                                                                      {"6", "[7]", "train.py:7"},
                                                                      {"0-5", "[2]", "train.py:7"}}));
  }
}

TEST_F(Callers, are_not_asked_about_calls_on_which_all_agree) {
  job_.on_send = [](int, int, const Bytes& message) {
    EXPECT_NE(kind_of(message), MessageKind::kCallerQuestion);
    EXPECT_NE(kind_of(message), MessageKind::kCallerAnswer);
  };
  for (int round = 0; round < 3; ++round) {
    submit("train", -1);
    job_.settle();
  }
  EXPECT_THAT(job_.batches(6), SizeIs(3));
}

TEST_F(Callers, one_rank_of_each_group_is_asked) {
  int answers = 0;
  job_.on_send = [&](int from, int, const Bytes& message) {
    if (kind_of(message) != MessageKind::kCallerAnswer) return;
    ++answers;
    EXPECT_EQ(from, 5);  // the root itself stands for the others
  };
  submit("train", 5);
  job_.settle();
  EXPECT_EQ(answers, 1);
}

TEST_F(Callers, do_not_hold_up_other_calls) {
  submit("bad", 6);
  submit("good", -1);
  std::mt19937 random;
  while (!job_.at(0).can_cut() && job_.deliver(random)) continue;
  job_.settle();
  EXPECT_EQ(error_of("good"), "");
  EXPECT_THAT(error_of("bad"), HasSubstr("differ in shape"));
}

TEST_F(Callers, that_do_not_answer_are_not_waited_for_for_long) {
  submit("train", 6);
  deliver_until_asked();
  const TimePoint asked = TimePoint() + 100s;
  job_.tick(0, asked, true);
  job_.tick(0, asked + 999ms, true);
  EXPECT_FALSE(job_.at(0).can_cut());
  EXPECT_FALSE(job_.at(0).has_errors());
  job_.tick(0, asked + 1s, true);
  EXPECT_FALSE(job_.at(0).awaits_callers());
  EXPECT_TRUE(job_.at(0).has_errors()) << "the root must not rest now";
  // The answer comes after the error, and nothing comes of it.
  job_.settle();
  ASSERT_THAT(job_.batches(6), SizeIs(1));
  EXPECT_EQ(error_of("train"),
            with_table("allreduce 'train': ranks differ in shape",
                       {{"ranks", "shape", "called at"}, {"6", "[7]", "-"}, {"0-5", "[2]", "train.py:7"}}));
}

TEST_F(Callers, are_not_waited_for_when_a_rank_leaves) {
  submit("train", 6);
  deliver_until_asked();
  job_.leave(0, "it was shut down");
  EXPECT_TRUE(job_.cut());
  job_.settle();
  for (int rank = 0; rank < job_.size(); ++rank) {
    ASSERT_THAT(job_.batches(rank), SizeIs(1));
    EXPECT_TRUE(job_.departure(rank));
  }
  EXPECT_THAT(error_of("train"), HasSubstr("differ in shape"));
}

TEST_F(Callers, are_not_waited_for_when_all_ranks_have_joined) {
  submit("train", 6);
  for (int rank = 0; rank < job_.size(); ++rank) job_.join(rank);
  job_.settle();
  for (int rank = 0; rank < job_.size(); ++rank) {
    ASSERT_THAT(job_.batches(rank), SizeIs(2));
    EXPECT_NE(job_.batches(rank).front().error, "");
    EXPECT_EQ(job_.batches(rank).back().signature().op, OpKind::kJoin);
  }
}

TEST_F(Callers, in_a_process_set_that_is_removed_meanwhile_are_forgotten) {
  for (int rank = 0; rank < job_.size(); ++rank)
    job_.submit(rank, set_request(OpKind::kAddProcessSet, 1, {4, 6}));
  job_.settle();
  const auto set = static_cast<std::int32_t>(job_.batches(6).back().value);
  job_.submit(4, on(set, named_request("train", {2})));
  job_.submit(6, on(set, named_request("train", {7})));
  deliver_until_asked();
  for (int rank = 0; rank < job_.size(); ++rank)
    job_.submit(rank, set_request(OpKind::kRemoveProcessSet, 2, {4, 6}));
  std::mt19937 random;
  while (!job_.at(0).can_cut() && job_.deliver(random)) continue;
  job_.settle();
  EXPECT_FALSE(job_.at(0).awaits_callers());
  EXPECT_EQ(job_.batches(6).back().signature().op, OpKind::kRemoveProcessSet);
}

}  // namespace
}  // namespace hora::testing
