#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "negotiation/negotiator.h"
#include "support/sentence.h"
#include "support/two_hosts.h"

namespace hora::testing {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace hora::testing
