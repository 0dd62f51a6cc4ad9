#include <gmock/gmock.h>

#include "negotiation/negotiator.h"
#include "support/sentence.h"
#include "support/two_hosts.h"

namespace hora::testing {
namespace {

using ::testing::IsEmpty;

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
