#include "negotiation/negotiator.h"

#include <gmock/gmock.h>

#include <random>

#include "base/error.h"
#include "support/two_hosts.h"

namespace hora::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

}  // namespace
}  // namespace hora::testing
