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

/// A job with the process sets {1, 4} and {2, 3}, neither of which has the root.
class SetsWithoutTheRoot : public ::testing::Test {
 protected:
  SetsWithoutTheRoot() : low_(add({1, 4}, 1)), high_(add({2, 3}, 2)) {}

  std::int32_t add(const std::vector<int>& ranks, std::uint64_t number) {
    submit_everywhere(job_, set_request(OpKind::kAddProcessSet, number, ranks));
    job_.settle();
    return static_cast<std::int32_t>(job_.batches(0).back().value);
  }
  void submit_low(const std::string& name, Shape shape = {2}) {
    for (const int rank : {1, 4}) job_.submit(rank, on(low_, on_device(named_request(name, shape))));
    job_.settle(kBusy);
  }
  void submit_high(const std::string& name) {
    for (const int rank : {2, 3}) job_.submit(rank, on(high_, on_device(named_request(name))));
    job_.settle(kBusy);
  }
  /// Batches of the process sets.
  [[nodiscard]] std::size_t low() const { return job_.batches(4).size() - 2; }
  [[nodiscard]] std::size_t high() const { return job_.batches(3).size() - 2; }

  VirtualJob job_{kTwoHosts, negotiator_options(kBucket)};
  const std::int32_t low_;
  const std::int32_t high_;
};

TEST_F(SetsWithoutTheRoot, are_held_back_until_their_first_rank_has_told_of_an_end) {
  submit_low("a");
  submit_low("b");
  EXPECT_EQ(low(), 2u);  // the devices have little to do
  submit_low("c");
  submit_low("d");
  EXPECT_EQ(low(), 2u);
  EXPECT_TRUE(job_.at(0).holds_back());
  job_.end_batches(1, low_, 1);
  job_.settle(kBusy);
  EXPECT_EQ(low(), 3u);
  EXPECT_EQ(job_.batches(4).back().entries.size(), 2u);
}

TEST_F(SetsWithoutTheRoot, do_not_wait_for_each_other_nor_for_the_root) {
  for (const char* name : {"a", "b", "c"}) submit_low(name);
  EXPECT_EQ(low(), 2u);
  submit_high("a");
  EXPECT_EQ(high(), 1u);
  submit_everywhere(job_, on_device(named_request("all")));
  job_.settle(kBusy - 1);
  EXPECT_EQ(low(), 3u);  // with that of all ranks
  job_.end_batches(2, high_, 1);
  job_.settle(kBusy);
  EXPECT_EQ(low(), 3u);
}

TEST_F(SetsWithoutTheRoot, are_planned_when_a_bucket_is_full_or_somebody_waits) {
  submit_low("a");
  submit_low("b");
  submit_low("c", {250});
  EXPECT_EQ(low(), 3u);
  submit_low("d");
  EXPECT_EQ(low(), 3u);
  job_.wait(4, {"d", 0, low_});
  job_.settle(kBusy);
  EXPECT_EQ(low(), 4u);
}

TEST_F(SetsWithoutTheRoot, may_end_batches_after_they_are_gone) {
  submit_low("a");
  submit_everywhere(job_, set_request(OpKind::kRemoveProcessSet, 3, {1, 4}));
  job_.settle(kBusy);
  job_.end_batches(1, low_, 1);
  job_.settle(kBusy);
  EXPECT_FALSE(job_.failure(0).has_value());
  submit_high("a");
  EXPECT_EQ(high(), 2u);  // one is the removal
}

}  // namespace
}  // namespace hora::testing
