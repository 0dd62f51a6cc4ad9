#include <gmock/gmock.h>

#include "negotiation/negotiator.h"
#include "support/two_hosts.h"

namespace hora::testing {
namespace {

using ::testing::IsEmpty;

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

}  // namespace
}  // namespace hora::testing
