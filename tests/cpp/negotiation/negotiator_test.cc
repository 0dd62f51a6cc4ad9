#include "negotiation/negotiator.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "negotiation/mismatch.h"
#include "support/sentence.h"
#include "support/virtual_job.h"

namespace hora::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Five ranks on two hosts: 0 is the parent of 1, 2 and 3, which is the parent of 4.
const JobShape kTwoHosts{{3, 2}, 16};

void submit_everywhere(VirtualJob& job, const Request& request) {
  for (int rank = 0; rank < job.size(); ++rank) job.submit(rank, request);
}

Request with_shape_on(const Request& request, int rank, int odd_rank, Shape shape) {
  return rank == odd_rank ? named_request(request.key.name, std::move(shape)) : request;
}

TEST(Negotiator, a_lone_rank_agrees_with_itself) {
  VirtualJob job({{1}, 16}, negotiator_options());
  job.submit(0, named_request("x"));
  job.settle();
  EXPECT_THAT(describe_batches(job.batches(0)), ElementsAre("allreduce 'x' float32[2] #1"));
  EXPECT_EQ(job.messages(), 0u);
}

TEST(Negotiator, a_tensor_comes_out_on_all_ranks_once_all_have_announced_it) {
  VirtualJob job(kTwoHosts, negotiator_options());
  for (int rank = 0; rank < 5; ++rank) {
    job.settle();
    EXPECT_THAT(job.batches(0), IsEmpty()) << "before rank " << rank << " has announced it";
    job.submit(rank, named_request("x"));
  }
  job.settle();
  for (int rank = 0; rank < 5; ++rank)
    EXPECT_THAT(describe_batches(job.batches(rank)), ElementsAre("allreduce 'x' float32[2] #1"));
}

TEST(Negotiator, what_is_ready_together_is_planned_together) {
  VirtualJob job(kTwoHosts, negotiator_options());
  for (const char* name : {"a", "b", "c"}) submit_everywhere(job, named_request(name));
  job.settle();
  EXPECT_EQ(job.batches(4).size(), 1u);
  EXPECT_EQ(job.batches(4).front().entries.size(), 3u);
}

TEST(Negotiator, one_tensor_costs_one_message_up_and_one_down_per_edge) {
  VirtualJob job({{40}, 3}, negotiator_options());
  submit_everywhere(job, named_request("x"));
  job.settle();
  EXPECT_EQ(job.messages(), 2u * 39);
}

TEST(Negotiator, from_the_second_round_on_a_tensor_costs_a_few_bytes) {
  VirtualJob job(kTwoHosts, negotiator_options());
  const std::string long_name(200, 'n');
  submit_everywhere(job, named_request(long_name, {2, 3, 4}));
  job.settle();
  const std::uint64_t first_round = job.message_bytes();
  EXPECT_GT(first_round, 8u * 200);
  submit_everywhere(job, named_request(long_name, {2, 3, 4}));
  job.settle();
  EXPECT_LE(job.message_bytes() - first_round, 8u * 12);
  EXPECT_EQ(job.batches(4).back().entries.front().key.name, long_name);
}

TEST(Negotiator, with_capacity_0_the_description_travels_every_time) {
  VirtualJob job(kTwoHosts, negotiator_options(1000, 0));
  submit_everywhere(job, named_request("x"));
  job.settle();
  const std::uint64_t first_round = job.message_bytes();
  submit_everywhere(job, named_request("x"));
  job.settle();
  EXPECT_EQ(job.message_bytes(), 2 * first_round);
  EXPECT_EQ(job.batches(3).back().entries.front().id, 0u);
}

TEST(Negotiator, beyond_the_capacity_further_tensors_work_without_an_id) {
  for (const std::uint64_t capacity : {1, 2}) {
    VirtualJob job(kTwoHosts, negotiator_options(0, capacity));
    for (int round = 0; round < 3; ++round) {
      for (const char* name : {"a", "b", "c"}) submit_everywhere(job, named_request(name));
      job.settle();
    }
    ASSERT_EQ(job.batches(4).size(), 9u);
    for (const Batch& batch : job.batches(4)) {
      const BatchEntry& entry = batch.entries.front();
      EXPECT_EQ(entry.id, static_cast<std::uint64_t>(entry.key.name[0] - 'a') < capacity
                              ? entry.key.name[0] - 'a' + 1u
                              : 0u);
    }
    EXPECT_EQ(job.at(4).cache().last_id(), capacity);
  }
}

TEST(Negotiator, a_changed_shape_gets_a_further_id_and_the_old_one_stays) {
  VirtualJob job(kTwoHosts, negotiator_options());
  for (const std::int64_t extent : {2, 3, 2, 3}) {
    submit_everywhere(job, named_request("x", {extent}));
    job.settle();
  }
  EXPECT_THAT(describe_batches(job.batches(4)),
              ElementsAre("allreduce 'x' float32[2] #1", "allreduce 'x' float32[3] #2",
                          "allreduce 'x' float32[2] #1", "allreduce 'x' float32[3] #2"));
}

TEST(Negotiator, unnamed_calls_are_paired_by_number_and_share_an_id) {
  VirtualJob job(kTwoHosts, negotiator_options(0));
  for (int rank = 0; rank < 5; ++rank) {
    const bool backwards = rank % 2 == 1;
    for (const std::uint64_t number : {backwards ? 3 : 1, 2, backwards ? 1 : 3})
      job.submit(rank, unnamed_request(number));
  }
  job.settle();
  EXPECT_THAT(describe_batches(job.batches(4)),
              ::testing::UnorderedElementsAre("allreduce unnamed call 1 float32[2] #1",
                                              "allreduce unnamed call 2 float32[2] #1",
                                              "allreduce unnamed call 3 float32[2] #1"));
}

TEST(Negotiator, a_mismatch_is_an_error_on_all_ranks_that_names_each) {
  for (int odd_rank = 0; odd_rank < 5; ++odd_rank) {
    VirtualJob job(kTwoHosts, negotiator_options());
    for (int rank = 0; rank < 5; ++rank)
      job.submit(rank, with_shape_on(named_request("x"), rank, odd_rank, {7}));
    job.settle();
    std::vector<int> others{0, 1, 2, 3, 4};
    std::erase(others, odd_rank);
    const std::string expected = shapes_differ(
        "allreduce 'x'", {{std::to_string(odd_rank), "[7]"}, {RankSet(others).to_string(), "[2]"}});
    for (int rank = 0; rank < 5; ++rank) {
      ASSERT_EQ(job.batches(rank).size(), 1u);
      EXPECT_EQ(job.batches(rank).front().error, expected);
    }
  }
}

TEST(Negotiator, a_rank_that_changes_a_cached_tensor_is_told_from_those_that_do_not) {
  for (int odd_rank = 0; odd_rank < 5; ++odd_rank) {
    VirtualJob job(kTwoHosts, negotiator_options());
    submit_everywhere(job, named_request("x"));
    job.settle();
    for (int rank = 0; rank < 5; ++rank)
      job.submit(rank, with_shape_on(named_request("x"), rank, odd_rank, {7}));
    job.settle();
    EXPECT_THAT(job.batches(2).back().error,
                ::testing::ContainsRegex(fmt::format("\n  {} +\\[7\\]\n", odd_rank)));
    EXPECT_EQ(job.batches(2).back().error, job.batches(4).back().error);
  }
}

TEST(Negotiator, two_cached_shapes_of_one_tensor_do_not_match) {
  VirtualJob job(kTwoHosts, negotiator_options());
  for (const std::int64_t extent : {2, 7}) {
    submit_everywhere(job, named_request("x", {extent}));
    job.settle();
  }
  for (int rank = 0; rank < 5; ++rank) job.submit(rank, with_shape_on(named_request("x"), rank, 4, {7}));
  job.settle();
  EXPECT_EQ(job.batches(3).back().error, shapes_differ("allreduce 'x'", {{"4", "[7]"}, {"0-3", "[2]"}}));
}

TEST(Negotiator, after_a_mismatch_the_next_correct_round_works) {
  VirtualJob job(kTwoHosts, negotiator_options());
  for (int rank = 0; rank < 5; ++rank) job.submit(rank, with_shape_on(named_request("x"), rank, 3, {7}));
  job.settle();
  submit_everywhere(job, named_request("x"));
  job.settle();
  EXPECT_EQ(job.batches(4).back().error, "");
  EXPECT_EQ(describe_batches(job.batches(4)).back(), "allreduce 'x' float32[2] #1");
}

TEST(Negotiator, an_error_waits_for_all_ranks_like_any_batch) {
  VirtualJob job(kTwoHosts, negotiator_options());
  for (int rank = 0; rank < 4; ++rank) job.submit(rank, with_shape_on(named_request("x"), rank, 0, {7}));
  job.settle();
  EXPECT_THAT(job.batches(0), IsEmpty());
  job.submit(4, named_request("x"));
  job.settle();
  EXPECT_THAT(job.batches(0).front().error, HasSubstr("\n  0      [7]\n"));
}

TEST(Negotiator, a_refused_call_is_an_error_everywhere_with_its_reason) {
  VirtualJob job(kTwoHosts, negotiator_options());
  Request refused = named_request("x");
  refused.signature.refusal = "no complex numbers";
  for (int rank = 0; rank < 5; ++rank) job.submit(rank, rank == 4 ? refused : named_request("x"));
  job.settle();
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(job.batches(rank).front().error, "allreduce 'x': rank 4 refused the call (no complex numbers)");
  }
}

TEST(Negotiator, a_call_that_every_rank_refused_alike_is_an_error) {
  VirtualJob job(kTwoHosts, negotiator_options());
  Request refused = named_request("x");
  refused.signature.refusal = "no";
  submit_everywhere(job, refused);
  job.settle();
  EXPECT_EQ(job.batches(1).front().error, "allreduce 'x': ranks 0-4 refused the call (no)");
}

TEST(Negotiator, different_ops_under_one_name_are_an_error) {
  VirtualJob job(kTwoHosts, negotiator_options());
  Request gather = named_request("x");
  gather.signature.op = OpKind::kAllgather;
  for (int rank = 0; rank < 5; ++rank) job.submit(rank, rank < 2 ? gather : named_request("x"));
  job.settle();
  EXPECT_EQ(job.batches(3).front().error,
            with_table("tensor 'x': ranks differ in operation",
                       {{"ranks", "operation"}, {"0,1", "allgather"}, {"2-4", "allreduce"}}));
}

TEST(Negotiator, an_error_does_not_hold_up_what_is_ready_with_it) {
  VirtualJob job(kTwoHosts, negotiator_options());
  for (int rank = 0; rank < 5; ++rank) {
    job.submit(rank, with_shape_on(named_request("bad"), rank, 2, {7}));
    job.submit(rank, named_request("good"));
  }
  job.settle();
  ASSERT_EQ(job.batches(4).size(), 2u);
  EXPECT_EQ(job.batches(4).front().error, "");
  EXPECT_NE(job.batches(4).back().error, "");
}

TEST(Negotiator, a_plan_is_relayed_in_the_same_step_in_which_it_comes_out) {
  Negotiator relay(Tree(Topology::split(3, 5, kTwoHosts.ranks_per_host), 16), negotiator_options());
  Plan plan;
  plan.batches.push_back({.entries = {{{"x", 0}, named_request("x").signature, 1}},
                          .piece_bytes = 1,
                          .contributors = 5,
                          .divisor = 5});
  const Bytes message = encode(plan, 1);
  relay.on_message(0, message);
  const Negotiator::Outputs outputs = relay.take_outputs();
  ASSERT_EQ(outputs.messages.size(), 1u);
  EXPECT_EQ(outputs.messages.front().peer, 4);
  EXPECT_EQ(outputs.messages.front().message, message);
  EXPECT_EQ(outputs.plans.size(), 1u);
}

TEST(Negotiator, what_it_relays_has_room_for_the_number_of_its_edge) {
  Negotiator relay(Tree(Topology::split(0, 5, {5}), 16), negotiator_options());
  relay.on_leave("it was shut down");
  ASSERT_TRUE(relay.can_cut());
  relay.cut();
  const Negotiator::Outputs outputs = relay.take_outputs();
  ASSERT_EQ(outputs.messages.size(), 4u);
  for (const Negotiator::Outgoing& outgoing : outputs.messages)
    EXPECT_GT(outgoing.message.capacity(), outgoing.message.size());
}

TEST(Negotiator, a_leaving_rank_ends_the_sequence_everywhere) {
  for (int leaver = 0; leaver < 5; ++leaver) {
    VirtualJob job(kTwoHosts, negotiator_options());
    submit_everywhere(job, named_request("agreed"));
    job.submit(0, named_request("pending"));
    job.leave(leaver, "it was shut down");
    job.settle();
    for (int rank = 0; rank < 5; ++rank) {
      ASSERT_TRUE(job.departure(rank).has_value());
      EXPECT_EQ(job.departure(rank)->rank, leaver);
      EXPECT_EQ(job.departure(rank)->reason, "it was shut down");
      EXPECT_EQ(job.batches(rank).size(), 1u) << "rank " << rank;
    }
  }
}

TEST(Negotiator, of_several_leaving_ranks_all_hear_of_the_same_one) {
  VirtualJob job(kTwoHosts, negotiator_options());
  for (int rank = 0; rank < 5; ++rank) job.leave(rank, "it was shut down");
  job.settle();
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(job.departure(rank)->rank, job.departure(0)->rank);
}

TEST(Negotiator, after_a_departure_nothing_is_announced_or_planned) {
  VirtualJob job(kTwoHosts, negotiator_options());
  job.leave(4, "it was shut down");
  job.settle();
  const std::uint64_t messages = job.messages();
  submit_everywhere(job, named_request("late"));
  for (int rank = 0; rank < 5; ++rank) job.leave(rank, "late");
  job.settle();
  EXPECT_EQ(job.messages(), messages);
  for (int rank = 0; rank < 5; ++rank) EXPECT_THAT(job.batches(rank), IsEmpty());
}

TEST(Negotiator, nobody_has_departed_before_all_have_said_goodbye) {
  VirtualJob job(kTwoHosts, negotiator_options());
  job.leave(1, "it was shut down");
  job.settle();
  for (const int late : {3, 0, 4, 1, 2}) {
    job.settle();
    for (int rank = 0; rank < 5; ++rank) EXPECT_FALSE(job.at(rank).all_have_departed());
    job.say_goodbye(late);
  }
  job.settle();
  for (int rank = 0; rank < 5; ++rank) EXPECT_TRUE(job.at(rank).all_have_departed());
}

TEST(Negotiator, a_failure_reaches_every_rank_from_anywhere) {
  for (int failing = 0; failing < 5; ++failing) {
    VirtualJob job(kTwoHosts, negotiator_options());
    job.fail(failing, "out of memory");
    job.settle();
    for (int rank = 0; rank < 5; ++rank) {
      ASSERT_TRUE(job.failure(rank).has_value());
      EXPECT_EQ(job.failure(rank)->rank, failing);
      EXPECT_EQ(job.failure(rank)->reason, "out of memory");
    }
  }
}

TEST(Negotiator, the_flood_of_a_failure_ends_after_one_message_per_edge_and_direction) {
  VirtualJob job({{3, 2, 4}, 2}, negotiator_options());
  job.fail(5, "out of memory");
  job.settle();
  EXPECT_LE(job.messages(), 2u * 8);
}

TEST(Negotiator, nothing_is_planned_after_a_failure) {
  VirtualJob job(kTwoHosts, negotiator_options());
  job.fail(4, "out of memory");
  job.settle();
  submit_everywhere(job, named_request("late"));
  job.settle();
  EXPECT_FALSE(job.at(0).can_cut());
  for (int rank = 0; rank < 5; ++rank) EXPECT_THAT(job.batches(rank), IsEmpty());
}

TEST(Negotiator, an_announcement_from_a_rank_that_is_no_child_is_an_error) {
  Negotiator root(Tree(Topology::split(0, 5, {3, 2}), 16), negotiator_options());
  const Bytes message = encode(std::vector<Announcement>{{{"x", 0}, 0, {{Signature{}, {}}}}});
  EXPECT_THROW(root.on_message(4, message), Error);
}

TEST(Negotiator, a_message_of_no_known_kind_is_an_error) {
  Negotiator root(Tree(Topology::split(0, 2, {2}), 16), negotiator_options());
  EXPECT_THROW(root.on_message(1, Bytes{std::byte{99}}), Error);
  EXPECT_THROW(root.on_message(1, Bytes{}), Error);
}

TEST(Negotiator, only_the_root_cuts_and_only_when_something_is_ready) {
  VirtualJob job(kTwoHosts, negotiator_options());
  EXPECT_FALSE(job.at(0).can_cut());
  submit_everywhere(job, named_request("x"));
  std::mt19937 random;
  while (job.deliver(random)) continue;
  EXPECT_TRUE(job.at(0).can_cut());
  for (int rank = 1; rank < 5; ++rank) EXPECT_FALSE(job.at(rank).can_cut());
}

/// Adds a process set; its id.
std::int32_t add_set(VirtualJob& job, const std::vector<int>& ranks, std::uint64_t number) {
  submit_everywhere(job, set_request(OpKind::kAddProcessSet, number, ranks));
  job.settle();
  return static_cast<std::int32_t>(job.batches(0).back().value);
}

TEST(ProcessSetAgreement, all_ranks_get_the_same_new_id) {
  VirtualJob job(kTwoHosts, negotiator_options());
  EXPECT_EQ(add_set(job, {1, 4}, 1), 1);
  EXPECT_EQ(add_set(job, {1, 4}, 2), 2);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(job.batches(rank).front().value, 1);
    EXPECT_EQ(job.batches(rank).back().value, 2);
  }
}

TEST(ProcessSetAgreement, a_tensor_comes_out_on_the_members_once_they_have_announced_it) {
  for (const std::vector<int>& ranks : {std::vector<int>{1, 4}, {0}, {4}, {0, 3}, {3, 4}, {1, 2}}) {
    VirtualJob job(kTwoHosts, negotiator_options());
    const std::int32_t set = add_set(job, ranks, 1);
    for (const int rank : ranks) {
      job.settle();
      for (const int member : ranks) EXPECT_EQ(job.batches(member).size(), 1u);
      job.submit(rank, on(set, named_request("x")));
    }
    job.settle();
    for (int rank = 0; rank < 5; ++rank) {
      if (!std::ranges::binary_search(ranks, rank)) {
        EXPECT_EQ(job.batches(rank).size(), 1u);
        continue;
      }
      ASSERT_EQ(job.batches(rank).size(), 2u);
      const Batch& batch = job.batches(rank).back();
      EXPECT_EQ(batch.process_set(), set);
      EXPECT_EQ(batch.contributors, static_cast<int>(ranks.size()));
      EXPECT_EQ(batch.entries.front().key.name, "x");
    }
  }
}

TEST(ProcessSetAgreement, messages_go_only_along_branches_with_members) {
  VirtualJob job(kTwoHosts, negotiator_options());
  const std::int32_t set = add_set(job, {0, 2}, 1);
  std::vector<std::pair<int, int>> edges;
  job.on_send = [&](int from, int to, const Bytes&) { edges.emplace_back(from, to); };
  for (const int rank : {0, 2}) job.submit(rank, on(set, named_request("x")));
  job.settle();
  EXPECT_THAT(edges, ElementsAre(std::pair(2, 0), std::pair(0, 2)));
}

TEST(ProcessSetAgreement, tensors_of_different_sets_never_meet_or_share_a_batch) {
  VirtualJob job(kTwoHosts, negotiator_options());
  const std::int32_t first = add_set(job, {0, 1, 2, 3, 4}, 1);
  const std::int32_t second = add_set(job, {0, 1, 2, 3, 4}, 2);
  for (int rank = 0; rank < 5; ++rank) {
    // One name, announced in another set each.
    job.submit(rank, on(rank % 2 == 0 ? first : second, named_request("x")));
  }
  job.settle();
  EXPECT_EQ(job.batches(4).size(), 2u);
  for (int rank = 0; rank < 5; ++rank) {
    job.submit(rank, on(rank % 2 == 0 ? second : first, named_request("x")));
    job.submit(rank, named_request("x"));
  }
  job.settle();
  ASSERT_EQ(job.batches(4).size(), 5u);
  for (const Batch& batch : job.batches(4)) EXPECT_EQ(batch.entries.size(), 1u);
}

TEST(ProcessSetAgreement, ids_of_tensors_work_where_only_some_have_learnt_them) {
  VirtualJob job(kTwoHosts, negotiator_options());
  const std::int32_t set = add_set(job, {1, 4}, 1);
  for (int round = 0; round < 3; ++round) {
    for (const int rank : {1, 4}) job.submit(rank, on(set, named_request("x")));
    job.settle();
    submit_everywhere(job, named_request(fmt::format("t{}", round)));
    job.settle();
  }
  const std::uint32_t id = job.batches(4)[1].entries.front().id;
  EXPECT_NE(id, 0u);
  EXPECT_EQ(job.batches(1).back().entries.front().id, job.batches(2).back().entries.front().id);
  EXPECT_EQ(job.at(4).cache().get(id).name, "x");
  EXPECT_THROW(static_cast<void>(job.at(2).cache().get(id)), Error);
}

TEST(ProcessSetAgreement, batches_stay_below_the_threshold_also_where_the_root_takes_no_part) {
  VirtualJob job(kTwoHosts, negotiator_options(100));
  const std::int32_t set = add_set(job, {1, 2}, 1);
  for (const int rank : {1, 2}) {
    for (const char* name : {"a", "b", "c"}) job.submit(rank, on(set, named_request(name, {20})));
  }
  job.settle();
  ASSERT_EQ(job.batches(1).size(), 4u);
  for (const Batch& batch : job.batches(1)) EXPECT_EQ(batch.entries.size(), 1u);
}

TEST(ProcessSetAgreement, a_mismatch_names_members_only) {
  VirtualJob job(kTwoHosts, negotiator_options());
  const std::int32_t set = add_set(job, {1, 2, 4}, 1);
  job.submit(1, on(set, named_request("x", {7})));
  for (const int rank : {2, 4}) job.submit(rank, on(set, named_request("x")));
  job.settle();
  EXPECT_EQ(job.batches(4).back().error, shapes_differ("allreduce 'x'", {{"1", "[7]"}, {"2,4", "[2]"}}));
  EXPECT_EQ(job.batches(4).back().process_set(), set);
  EXPECT_EQ(job.batches(0).size(), 1u);
}

TEST(ProcessSetAgreement, what_was_announced_before_a_removal_comes_out_before_it) {
  VirtualJob job(kTwoHosts, negotiator_options());
  const std::int32_t set = add_set(job, {1, 4}, 1);
  for (int rank = 0; rank < 5; ++rank) {
    if (rank == 1 || rank == 4) job.submit(rank, on(set, named_request("x")));
    job.submit(rank, set_request(OpKind::kRemoveProcessSet, 2, {1, 4}));
  }
  job.settle();
  ASSERT_EQ(job.batches(4).size(), 3u);
  EXPECT_EQ(job.batches(4)[1].process_set(), set);
  EXPECT_EQ(job.batches(4)[2].signature().op, OpKind::kRemoveProcessSet);
  EXPECT_EQ(job.batches(4)[2].value, set);
}

TEST(ProcessSetAgreement, announcements_that_a_removal_overtakes_are_forgotten) {
  VirtualJob job(kTwoHosts, negotiator_options());
  const std::int32_t set = add_set(job, {1, 3, 4}, 1);
  submit_everywhere(job, set_request(OpKind::kRemoveProcessSet, 2, {1, 3, 4}));
  std::mt19937 random;
  while (job.deliver(random)) continue;
  // On its way when the root decides; so is a mismatch that rank 3 would have to describe.
  job.submit(4, on(set, named_request("x")));
  job.submit(1, on(set, named_request("x", {7})));
  EXPECT_TRUE(job.cut());
  job.submit(3, on(set, named_request("x")));
  job.settle();
  job.submit(4, on(set, named_request("late")));
  const std::int32_t next = add_set(job, {1, 3, 4}, 3);
  EXPECT_NE(next, set);
  for (const int rank : {1, 3, 4}) job.submit(rank, on(next, named_request("x")));
  job.settle();
  for (const int rank : {1, 3, 4}) {
    ASSERT_EQ(job.batches(rank).size(), 4u);
    EXPECT_EQ(job.batches(rank).back().process_set(), next);
    EXPECT_EQ(job.batches(rank).back().error, "");
  }
}

TEST(ProcessSetAgreement, a_set_that_is_not_there_cannot_be_removed) {
  VirtualJob job(kTwoHosts, negotiator_options());
  static_cast<void>(add_set(job, {0, 2, 4}, 1));
  std::uint64_t number = 1;
  for (const std::vector<int>& ranks : {std::vector<int>{0, 2}, {0, 1, 2, 3, 4}}) {
    submit_everywhere(job, set_request(OpKind::kRemoveProcessSet, ++number, ranks));
    job.settle();
    for (int rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(
          job.batches(rank).back().error,
          fmt::format("remove_process_set: there is no set of the ranks {}", RankSet(ranks).to_string()));
    }
  }
}

const Batch& last_batch(const VirtualJob& job) {
  return job.batches(0).back();
}

TEST(JoinAgreement, comes_out_once_all_ranks_have_joined_and_names_the_last) {
  for (int last = 0; last < 5; ++last) {
    VirtualJob job(kTwoHosts, negotiator_options());
    for (int round = 0; round < 2; ++round) {
      for (int step = 1; step <= 5; ++step) {
        job.settle();
        EXPECT_EQ(job.batches(0).size(), static_cast<std::size_t>(round));
        job.join((last + step) % 5);
      }
      job.settle();
      for (int rank = 0; rank < 5; ++rank) {
        ASSERT_EQ(job.batches(rank).size(), static_cast<std::size_t>(round + 1));
        EXPECT_EQ(job.batches(rank).back().signature().op, OpKind::kJoin);
        EXPECT_EQ(job.batches(rank).back().value, last);
      }
    }
  }
}

TEST(JoinAgreement, a_joined_rank_counts_as_having_announced_everything) {
  for (int joined = 0; joined < 5; ++joined) {
    for (const bool joins_first : {true, false}) {
      VirtualJob job(kTwoHosts, negotiator_options());
      if (joins_first) job.join(joined);
      job.settle();
      for (int rank = 0; rank < 5; ++rank) {
        if (rank != joined) job.submit(rank, named_request("x"));
      }
      job.settle();
      if (!joins_first) {
        EXPECT_THAT(job.batches(0), IsEmpty());
        job.join(joined);
        job.settle();
      }
      for (int rank = 0; rank < 5; ++rank) {
        ASSERT_EQ(job.batches(rank).size(), 1u) << "rank " << rank;
        EXPECT_EQ(job.batches(rank).front().contributors, 4);
      }
    }
  }
}

TEST(JoinAgreement, tensors_with_different_contributors_do_not_share_a_batch) {
  VirtualJob job(kTwoHosts, negotiator_options());
  submit_everywhere(job, named_request("all"));
  job.join(4);
  for (int rank = 0; rank < 4; ++rank) job.submit(rank, named_request("others"));
  job.settle();
  ASSERT_EQ(job.batches(4).size(), 2u);
  EXPECT_EQ(job.batches(4)[0].entries.front().key.name, "all");
  EXPECT_EQ(job.batches(4)[0].contributors, 5);
  EXPECT_EQ(job.batches(4)[1].entries.front().key.name, "others");
  EXPECT_EQ(job.batches(4)[1].contributors, 4);
}

TEST(JoinAgreement, what_a_rank_announced_before_counts_whenever_it_comes_out) {
  for (int joined = 0; joined < 5; ++joined) {
    VirtualJob job(kTwoHosts, negotiator_options());
    job.submit(joined, named_request("x"));
    job.join(joined);
    job.settle();
    EXPECT_THAT(job.batches(0), IsEmpty());
    for (int rank = 0; rank < 5; ++rank) {
      if (rank != joined) job.submit(rank, named_request("x"));
    }
    job.settle();
    EXPECT_EQ(last_batch(job).contributors, 5);
  }
}

TEST(JoinAgreement, what_only_one_rank_announced_comes_out_before_the_join) {
  for (int caller = 0; caller < 5; ++caller) {
    VirtualJob job(kTwoHosts, negotiator_options());
    job.submit(caller, named_request("x"));
    for (int rank = 0; rank < 5; ++rank) job.join(rank);
    job.settle();
    for (int rank = 0; rank < 5; ++rank) {
      ASSERT_EQ(job.batches(rank).size(), 2u);
      EXPECT_EQ(job.batches(rank)[0].contributors, 1);
      EXPECT_EQ(job.batches(rank)[1].signature().op, OpKind::kJoin);
    }
  }
}

TEST(JoinAgreement, a_join_does_not_overtake_what_the_subtree_announced_in_the_same_step) {
  for (const int rank : {1, 3, 4}) {
    Negotiator node(Tree(Topology::split(rank, 5, kTwoHosts.ranks_per_host), 16), negotiator_options());
    // Rank 3 has a child, which announces the tensor too.
    if (rank == 3)
      node.on_message(4, encode(std::vector<Announcement>{{{"x"}, 0, {{named_request("x").signature, {}}}}}));
    node.on_submit(named_request("x"));
    node.on_join();
    const Negotiator::Outputs outputs = node.take_outputs();
    ASSERT_EQ(outputs.messages.size(), 2u) << "rank " << rank;
    EXPECT_EQ(kind_of(outputs.messages[0].message), MessageKind::kAnnounce);
    EXPECT_EQ(kind_of(outputs.messages[1].message), MessageKind::kJoin);
    EXPECT_EQ(decode_join(outputs.messages[1].message), rank);
  }
}

TEST(JoinAgreement, a_join_does_not_overtake_what_it_completes) {
  Negotiator node(Tree(Topology::split(3, 5, kTwoHosts.ranks_per_host), 16), negotiator_options());
  node.on_submit(named_request("x"));
  node.on_message(4, encode_join(4));
  const Negotiator::Outputs outputs = node.take_outputs();
  ASSERT_EQ(outputs.messages.size(), 2u);
  EXPECT_EQ(kind_of(outputs.messages[0].message), MessageKind::kAnnounce);
  EXPECT_EQ(kind_of(outputs.messages[1].message), MessageKind::kJoin);
}

TEST(JoinAgreement, batches_stay_below_the_threshold_also_when_the_root_has_joined) {
  VirtualJob job(kTwoHosts, negotiator_options(100));
  job.join(0);
  for (int rank = 1; rank < 5; ++rank) {
    for (const char* name : {"a", "b", "c"}) job.submit(rank, named_request(name, {20}));
  }
  job.settle();
  EXPECT_EQ(job.batches(4).size(), 3u);
}

TEST(JoinAgreement, a_broadcast_fails_if_its_root_joined_without_announcing_it) {
  Request request = named_request("x");
  request.signature.op = OpKind::kBroadcast;
  for (int root = 0; root < 5; ++root) {
    request.signature.root = root;
    for (const bool announces : {true, false}) {
      VirtualJob job(kTwoHosts, negotiator_options());
      const int other = (root + 1) % 5;
      if (announces) job.submit(root, request);
      job.join(root);
      job.join(other);
      job.settle();
      for (int rank = 0; rank < 5; ++rank) {
        if (rank != root && rank != other) job.submit(rank, request);
      }
      job.settle();
      for (int rank = 0; rank < 5; ++rank) {
        ASSERT_EQ(job.batches(rank).size(), 1u);
        EXPECT_EQ(job.batches(rank).front().error,
                  announces
                      ? ""
                      : fmt::format("broadcast 'x': root_rank {} has joined and has nothing to send", root));
      }
    }
  }
}

TEST(JoinAgreement, a_mismatch_names_exactly_those_that_announced) {
  for (int odd = 0; odd < 5; ++odd) {
    for (int joined = 0; joined < 5; ++joined) {
      if (joined == odd) continue;
      VirtualJob job(kTwoHosts, negotiator_options());
      // One announces and joins, one only joins.
      job.submit(odd, named_request("x", {7}));
      job.join(odd);
      job.join(joined);
      job.settle();
      std::vector<int> others;
      for (int rank = 0; rank < 5; ++rank) {
        if (rank == odd || rank == joined) continue;
        others.push_back(rank);
        job.submit(rank, named_request("x"));
      }
      job.settle();
      EXPECT_EQ(last_batch(job).error,
                shapes_differ("allreduce 'x'",
                              {{std::to_string(odd), "[7]"}, {RankSet(others).to_string(), "[2]"}}));
    }
  }
}

TEST(JoinAgreement, an_error_names_ranks_whose_join_arrives_after_the_call_that_it_completes) {
  for (const OpKind op : {OpKind::kAddProcessSet, OpKind::kBroadcast}) {
    VirtualJob job(kTwoHosts, negotiator_options());
    Request request = set_request(op, 1, {0, 1});
    if (op == OpKind::kBroadcast) request.signature.root = 4;
    for (int rank = 0; rank < 4; ++rank) job.submit(rank, request);
    job.settle();
    EXPECT_THAT(job.batches(0), IsEmpty());
    job.join(4);
    job.settle();
    ASSERT_EQ(job.batches(0).size(), 1u);
    EXPECT_EQ(
        job.batches(0).front().error,
        op == OpKind::kBroadcast
            ? "broadcast unnamed call 1: root_rank 4 has joined and has nothing to send"
            : "add_process_set: ranks 4 have joined; process sets change only while all ranks take part");
  }
}

TEST(JoinAgreement, numbers_of_unnamed_calls_may_begin_anew_after_it) {
  VirtualJob job(kTwoHosts, negotiator_options());
  for (int round = 0; round < 3; ++round) {
    // Rank r makes r calls before it joins.
    for (int rank = 0; rank < 5; ++rank) {
      for (int call = 1; call <= rank; ++call)
        job.submit(rank, unnamed_request(static_cast<std::uint64_t>(call), {1 + call}));
      job.join(rank);
    }
    job.settle();
    ASSERT_EQ(last_batch(job).signature().op, OpKind::kJoin);
  }
  int seen = 0;
  for (const Batch& batch : job.batches(2)) {
    for (const BatchEntry& entry : batch.entries) {
      if (batch.signature().op == OpKind::kJoin) continue;
      ++seen;
      EXPECT_EQ(batch.error, "");
      EXPECT_EQ(entry.signature->tensors.front().shape,
                (Shape{1 + static_cast<std::int64_t>(entry.key.number)}));
      EXPECT_EQ(batch.contributors, 5 - static_cast<int>(entry.key.number));
    }
  }
  EXPECT_EQ(seen, 3 * 4);
}

}  // namespace
}  // namespace hora::testing
