#include "negotiation/device_commit.h"

#include <gmock/gmock.h>

#include "support/virtual_job.h"

namespace hora::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kBusy = 2;  // batches, so that calls are held back
constexpr std::uint64_t kBucket = 1000;

/// Five ranks on two hosts: 0 is the parent of 1, 2 and 3, which is the parent of 4.
const JobShape kTwoHosts{{3, 2}, 16};

void submit_everywhere(VirtualJob& job, const Request& request) {
  for (int rank = 0; rank < job.size(); ++rank) job.submit(rank, request);
}

std::vector<std::string> planned(const VirtualJob& job) {
  for (int rank = 1; rank < job.size(); ++rank)
    EXPECT_EQ(describe_batches(job.batches(rank)), describe_batches(job.batches(0)));
  return describe_batches(job.batches(0));
}

TEST(DeviceCommit, plans_when_the_device_needs_work_or_a_bucket_is_full_or_somebody_waits) {
  EXPECT_TRUE(may_plan({.ready_bytes = 1, .bucket_bytes = 10, .unfinished = 0}));
  EXPECT_TRUE(may_plan({.ready_bytes = 1, .bucket_bytes = 10, .unfinished = 1}));
  EXPECT_FALSE(may_plan({.ready_bytes = 1, .bucket_bytes = 10, .unfinished = 2}));
  EXPECT_FALSE(may_plan({.ready_bytes = 9, .bucket_bytes = 10, .unfinished = 7}));
  EXPECT_TRUE(may_plan({.ready_bytes = 10, .bucket_bytes = 10, .unfinished = 7}));
  EXPECT_TRUE(may_plan({.ready_bytes = 1, .bucket_bytes = 10, .unfinished = 7, .caller_waits = true}));
}

TEST(DeviceCommit, holds_calls_back_while_the_device_is_busy) {
  VirtualJob job(kTwoHosts, negotiator_options(kBucket));
  submit_everywhere(job, on_device(named_request("a")));
  submit_everywhere(job, on_device(named_request("b")));
  job.settle(kBusy);
  EXPECT_TRUE(job.at(0).holds_back());
  EXPECT_THAT(planned(job), IsEmpty());
  job.settle(kBusy - 1);
  EXPECT_FALSE(job.at(0).holds_back());
  EXPECT_EQ(job.batches(4).size(), 1u);
  EXPECT_EQ(job.batches(4).front().entries.size(), 2u);
}

TEST(DeviceCommit, plans_as_soon_as_a_bucket_is_full) {
  VirtualJob job(kTwoHosts, negotiator_options(kBucket));
  submit_everywhere(job, on_device(named_request("a", {120})));
  job.settle(kBusy);
  EXPECT_THAT(planned(job), IsEmpty());
  submit_everywhere(job, on_device(named_request("b", {130})));
  job.settle(kBusy);
  EXPECT_EQ(planned(job).size(), 1u);
}

TEST(DeviceCommit, calls_in_host_memory_go_past_those_that_are_held_back) {
  VirtualJob job(kTwoHosts, negotiator_options(kBucket));
  submit_everywhere(job, on_device(named_request("a")));
  submit_everywhere(job, named_request("b"));
  job.settle(kBusy);
  EXPECT_THAT(planned(job), ElementsAre("allreduce 'b' float32[2] #1"));
  EXPECT_TRUE(job.at(0).holds_back());
}

TEST(DeviceCommit, a_waiting_thread_of_any_rank_sets_them_free) {
  for (int waiting = 0; waiting < kTwoHosts.size(); ++waiting) {
    VirtualJob job(kTwoHosts, negotiator_options(kBucket));
    submit_everywhere(job, on_device(named_request("a")));
    job.settle(kBusy);
    job.wait(waiting, {"a"});
    job.settle(kBusy);
    EXPECT_EQ(planned(job).size(), 1u) << "rank " << waiting << " waits";
  }
}

TEST(DeviceCommit, a_wait_for_what_not_all_have_announced_counts_when_they_have) {
  for (int late = 0; late < kTwoHosts.size(); ++late) {
    for (int waiting = 0; waiting < kTwoHosts.size(); ++waiting) {
      if (waiting == late) continue;
      VirtualJob job(kTwoHosts, negotiator_options(kBucket));
      for (int rank = 0; rank < job.size(); ++rank)
        if (rank != late) job.submit(rank, on_device(named_request("a")));
      job.wait(waiting, {"a"});
      job.settle(kBusy);
      EXPECT_THAT(planned(job), IsEmpty());
      job.submit(late, on_device(named_request("a")));
      job.settle(kBusy);
      EXPECT_EQ(planned(job).size(), 1u) << "rank " << waiting << " waits, rank " << late << " is late";
    }
  }
}

TEST(DeviceCommit, a_wait_counts_once) {
  VirtualJob job(kTwoHosts, negotiator_options(kBucket));
  for (const std::uint64_t batches : {1u, 2u}) {  // described, then known by its id
    submit_everywhere(job, on_device(named_request("a")));
    job.settle(kBusy);
    EXPECT_EQ(job.batches(0).size(), batches - 1);
    job.wait(4, {"a"});
    job.settle(kBusy);
    EXPECT_EQ(job.batches(0).size(), batches);
  }
  job.wait(2, {"a"});  // it has come out meanwhile
  submit_everywhere(job, on_device(named_request("b")));
  job.settle(kBusy);
  EXPECT_TRUE(job.at(0).holds_back());
}

TEST(DeviceCommit, what_changes_who_takes_part_comes_after_what_was_ready_before) {
  const Request barrier = [] {
    Request request = unnamed_request(1);
    request.signature.op = OpKind::kBarrier;
    request.signature.tensors.clear();
    return request;
  }();
  for (const Request& change : {barrier, set_request(OpKind::kAddProcessSet, 1, {1, 2})}) {
    VirtualJob job(kTwoHosts, negotiator_options(kBucket));
    submit_everywhere(job, on_device(named_request("a")));
    submit_everywhere(job, change);
    job.settle(kBusy);
    EXPECT_EQ(planned(job).size(), 2u);
  }
  VirtualJob job(kTwoHosts, negotiator_options(kBucket));
  submit_everywhere(job, on_device(named_request("a")));
  job.settle(kBusy);
  job.leave(3, "it was shut down");
  job.settle(kBusy);
  EXPECT_EQ(planned(job).size(), 1u);
  EXPECT_TRUE(job.departure(4).has_value());
}

TEST(DeviceCommit, a_set_without_the_root_is_not_held_back) {
  VirtualJob job(kTwoHosts, negotiator_options(kBucket));
  submit_everywhere(job, set_request(OpKind::kAddProcessSet, 1, {1, 4}));
  job.settle();
  const auto set = static_cast<std::int32_t>(job.batches(0).back().value);
  for (const int rank : {1, 4}) job.submit(rank, on(set, on_device(named_request("a"))));
  job.settle(kBusy);
  EXPECT_EQ(job.batches(4).size(), 2u);
}

}  // namespace
}  // namespace hora::testing
