#include "api/session.h"

#include <gmock/gmock.h>

#include <numeric>

#include "mpi/open_job.h"
#include "support/calls.h"
#include "support/grid.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;

/// Large enough for several pieces and for MPI's rendezvous protocol.
constexpr std::size_t kLarge = 60'001;

TEST(MpiSession, allreduce_equals_the_serial_reference) {
  const Settings settings{.fusion_threshold = 0};
  Session session(open_job(settings), settings);
  Grid grid(session);
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : ops_of(dtype)) {
      for (const std::size_t length : critical_lengths(session.topology().size(), 1000))
        grid.allreduce({dtype, op, length, length % 2 == 0});
    }
    grid.allreduce({dtype, ReduceOp::kSum, kLarge, false});
  }
  grid.finish();
}

TEST(MpiSession, allreduce_in_tiny_pieces_equals_the_serial_reference) {
  const Settings settings{.piece_bytes = 1000};
  Session session(open_job(settings), settings);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt64})
    check_allreduce(session, {dtype, ReduceOp::kAverage, kLarge, true});
}

TEST(MpiSession, allgather_takes_ragged_rows) {
  Session session(open_job(), {});
  Grid grid(session);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(session.topology().size()));
  for (const DType dtype : kAllDTypes) {
    std::iota(rows.begin(), rows.end(), 0);
    grid.allgather(dtype, rows, 5);
    std::ranges::reverse(rows);
    grid.allgather(dtype, rows, 3001);
  }
  grid.finish();
}

TEST(MpiSession, broadcast_works_from_every_root) {
  Session session(open_job(), {});
  Grid grid(session);
  for (int root = 0; root < session.topology().size(); ++root) {
    for (const DType dtype : kAllDTypes) {
      for (const std::size_t length : {std::size_t{0}, std::size_t{1}, kLarge})
        grid.broadcast(dtype, length, root, length == 1);
    }
  }
  grid.finish();
}

TEST(MpiSession, works_over_made_up_hosts) {
  const int size = open_job()->topology().size();
  const Settings settings{.host_split = {1, size - 1}};
  Session session(open_job(settings), settings);
  check_allreduce(session, {DType::kFloat32, ReduceOp::kSum, 1000, true});
  run(session, barrier());
}

TEST(MpiSession, many_tensors_at_once_give_the_same_results_as_one_by_one) {
  for (const std::uint64_t threshold : {0, 200, 1 << 25}) {
    const Settings settings{.fusion_threshold = threshold};
    Session session(open_job(settings), settings);
    std::vector<std::vector<float>> tensors;
    for (std::size_t number = 0; number < 50; ++number)
      tensors.emplace_back(number * 3, static_cast<float>(number));
    for (int round = 0; round < 3; ++round) {
      std::vector<HandlePtr> handles;
      for (std::size_t number = 0; number < 50; ++number)
        handles.push_back(session.submit(
            allreduce("t" + std::to_string(number), ref(tensors[number]), ReduceOp::kAverage)));
      for (const HandlePtr& handle : handles) wait(session, handle);
    }
    for (std::size_t number = 0; number < 50; ++number)
      EXPECT_EQ(tensors[number], std::vector<float>(number * 3, static_cast<float>(number))) << threshold;
  }
}

TEST(MpiSession, a_mismatch_is_an_error_on_all_ranks_and_the_next_call_works) {
  Session session(open_job(), {});
  std::vector<float> values(session.topology().rank() == 1 ? 3 : 2, 1.0f);
  EXPECT_THAT(error_of(session, allreduce("x", ref(values))), HasSubstr("rank 1 sent float32[3]"));
  EXPECT_EQ(values[0], 1.0f);
  std::vector<float> good{1};
  EXPECT_EQ(error_of(session, allreduce("x", ref(good))), "");
  EXPECT_EQ(good[0], static_cast<float>(session.topology().size()));
}

TEST(MpiSession, a_leaving_rank_fails_what_is_pending_on_the_others) {
  Session session(open_job(), {});
  run(session, barrier());
  if (session.topology().rank() == 1) {
    session.leave();
    return;
  }
  std::vector<float> values{1};
  EXPECT_THAT(error_of(session, allreduce("x", ref(values))), HasSubstr("rank 1 left the job"));
}

TEST(MpiSession, sessions_may_follow_one_another) {
  for (int round = 0; round < 5; ++round) {
    Session session(open_job(), {});
    check_allreduce(session, {DType::kInt32, ReduceOp::kSum, 10, true});
  }
}

}  // namespace
}  // namespace hora::testing
