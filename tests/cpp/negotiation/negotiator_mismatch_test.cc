#include <gmock/gmock.h>

#include <algorithm>

#include "negotiation/negotiator.h"
#include "support/sentence.h"
#include "support/two_hosts.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Request with_shape_on(const Request& request, int rank, int odd_rank, Shape shape) {
  return rank == odd_rank ? named_request(request.key.name, std::move(shape)) : request;
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

}  // namespace
}  // namespace hora::testing
