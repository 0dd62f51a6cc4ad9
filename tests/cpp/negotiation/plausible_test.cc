// Messages that can be read and cannot be meant.

#include "negotiation/plausible.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/virtual_job.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Five ranks on two hosts: 0 is the parent of 1, 2 and 3, which is the parent of 4.
class Implausible : public ::testing::Test {
 protected:
  Implausible() : job_({{3, 2}, 16}, negotiator_options()) {}

  void expect_refused(int to, int from, const Bytes& message, const std::string& why) {
    try {
      job_.at(to).on_message(from, message);
      ADD_FAILURE() << "rank " << to << " took it: " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kSessionFailed);
      EXPECT_THAT(error.what(), StartsWith("rank " + std::to_string(from) + " sent what cannot be: "));
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }

  static Bytes announced(Announcement announcement) {
    return encode(std::vector<Announcement>{std::move(announcement)});
  }
  static Bytes announced(const Request& request, RankSet contributors = {}) {
    return announced({request.key, 0, {{request.signature, {}}}, std::move(contributors)});
  }

  /// A plan of one batch that would do, but for what `damage` changes.
  template <typename Damage>
  static Bytes planned(const Damage& damage) {
    const Request request = named_request("x");
    Plan plan;
    plan.batches.push_back({.entries = {{request.key, request.signature, 1}},
                            .piece_bytes = 1000,
                            .contributors = 5,
                            .divisor = 5});
    damage(plan);
    return encode(plan, 1);
  }

  static void make_change(Plan& plan, std::vector<int> ranks) {
    const Signature change{.op = OpKind::kAddProcessSet, .ranks = std::move(ranks), .refusal = {}};
    plan.batches.front().entries = {{{"", 1}, change, 0}};
  }

  VirtualJob job_;
};

TEST_F(Implausible, where_a_call_was_made_tells_only_a_rank_below) {
  expect_refused(0, 1, encode(CallerAnswer{1, 4, "train.py:1"}), "it speaks for rank 4");
  expect_refused(3, 0, encode(CallerAnswer{1, 0, "train.py:1"}), "rank 3 is not its parent");
  expect_refused(0, 3, encode(CallerQuestion{1, {"x", 0}, RankSet({4})}), "not the parent of rank 0");
  job_.at(0).on_message(3, encode(CallerAnswer{7, 4, "to a question that nobody asked"}));
}

TEST_F(Implausible, plans_of_the_parent_are_taken_as_they_should_be) {
  EXPECT_NO_THROW(job_.at(3).on_message(0, planned([](Plan&) {})));
  EXPECT_NO_THROW(job_.at(1).on_message(0, planned([](Plan& plan) { make_change(plan, {0, 4}); })));
}

TEST_F(Implausible, messages_against_the_direction_of_the_tree) {
  expect_refused(0, 3, planned([](Plan&) {}), "not the parent of rank 0");
  expect_refused(4, 0, planned([](Plan&) {}), "not the parent of rank 4");
  expect_refused(3, 0, announced(named_request("x")), "rank 3 is not its parent");
  expect_refused(3, 0, encode_join(0), "rank 3 is not its parent");
  expect_refused(3, 0, encode_waits({}), "rank 3 is not its parent");
  expect_refused(3, 0, encode(Departure{0, "x"}), "rank 3 is not its parent");
}

TEST_F(Implausible, announcements_for_ranks_elsewhere) {
  expect_refused(0, 1, announced(named_request("x"), RankSet({4})), "it speaks for rank 4");
  expect_refused(0, 1, announced(named_request("x"), RankSet({0, 1})),
                 "2 ranks below it announced 'x', of 1");
  const Request request = named_request("y");
  const Variant own{request.signature, RankSet({1})};
  const Variant foreign{named_request("y", {3}).signature, RankSet({2})};
  expect_refused(0, 1, announced({request.key, 0, {own, foreign}, {}}), "it speaks for rank 2");
}

TEST_F(Implausible, an_announcement_made_twice) {
  job_.at(0).on_message(1, announced(named_request("x")));
  expect_refused(0, 1, announced(named_request("x")), "'x' was announced twice");
}

TEST_F(Implausible, a_join_of_a_rank_elsewhere_or_once_more) {
  expect_refused(0, 1, encode_join(2), "rank 2 has joined");
  job_.at(0).on_message(3, encode_join(4));
  expect_refused(0, 3, encode_join(4), "rank 4 has joined");
  expect_refused(0, 1, announced({Key::join(), 0, {{Signature{.op = OpKind::kJoin}, {}}}, {}}), "a join");
}

TEST_F(Implausible, a_departure_of_a_rank_elsewhere) {
  expect_refused(0, 1, encode(Departure{4, "x"}), "rank 4 leaves");
  expect_refused(3, 0, planned([](Plan& plan) { plan.departure = Departure{5, "x"}; }), "rank 5 of 5 leaves");
}

TEST_F(Implausible, batches_that_could_not_be_run) {
  const auto expect_batch_refused = [this](const auto& damage, const std::string& why) {
    expect_refused(3, 0, planned([&](Plan& plan) { damage(plan.batches.front()); }), why);
  };
  expect_batch_refused([](Batch& batch) { batch.contributors = 0; }, "0 of 5 contribute");
  expect_batch_refused([](Batch& batch) { batch.contributors = 6; }, "6 of 5 contribute");
  expect_batch_refused([](Batch& batch) { batch.divisor = 0; }, "divided by 0");
  expect_batch_refused([](Batch& batch) { batch.piece_bytes = 0; }, "pieces of 0 bytes");
  expect_batch_refused(
      [](Batch& batch) {
        batch.entries = {{Key::join(), Signature{.op = OpKind::kJoin}, 0}};
        batch.value = 5;
      },
      "rank 5 of 5 joined last");
}

TEST_F(Implausible, process_sets_that_cannot_be) {
  expect_refused(3, 0, planned([](Plan& plan) { plan.process_set = 7; }), "no process set 7");
  expect_refused(3, 0, planned([](Plan& plan) { make_change(plan, {}); }), "of the ranks  in");
  expect_refused(3, 0, planned([](Plan& plan) { make_change(plan, {3, 5}); }), "of the ranks 3,5 in");
  expect_refused(0, 1, announced(set_request(OpKind::kAddProcessSet, 1, {1, 9})), "of the ranks 1,9 in");
}

}  // namespace
}  // namespace hora::testing
