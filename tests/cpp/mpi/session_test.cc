#include "api/session.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
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

TEST(MpiSession, alltoall_takes_ragged_rows) {
  Session session(open_job(), {});
  Grid grid(session);
  const auto size = static_cast<std::size_t>(session.topology().size());
  std::vector<std::vector<std::int64_t>> splits(size, std::vector<std::int64_t>(size));
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to)
      splits[from][to] = static_cast<std::int64_t>((from * 2 + to) % 4);
  }
  for (const DType dtype : kAllDTypes) {
    grid.alltoall(dtype, splits, 5);
    grid.alltoall(dtype, splits, 3001);
  }
  grid.finish();
}

TEST(MpiSession, reducescatter_equals_the_serial_reference) {
  for (const std::uint64_t threshold : {0, 1 << 25}) {
    const Settings settings{.fusion_threshold = threshold};
    Session session(open_job(settings), settings);
    Grid grid(session);
    for (const DType dtype : kAllDTypes) {
      for (const std::int64_t rows : {0, 1, session.topology().size() + 1, 1001})
        grid.reducescatter({dtype, ReduceOp::kSum, rows, 61});
    }
    grid.finish();
  }
}

TEST(MpiSession, groups_of_mixed_dtypes_equal_the_serial_reference) {
  for (const std::uint64_t threshold : {0, 1 << 25}) {
    const Settings settings{.fusion_threshold = threshold};
    Session session(open_job(settings), settings);
    Grid grid(session);
    const auto rows = std::vector<std::int64_t>(static_cast<std::size_t>(session.topology().size()), 3);
    for (int round = 0; round < 3; ++round) {
      grid.group([&] {
        for (const std::size_t length : {std::size_t{0}, std::size_t{1}, kLarge}) {
          for (const DType dtype : kAllDTypes) grid.allreduce({dtype, ReduceOp::kSum, length, length == 1});
        }
      });
      grid.group([&] {
        for (const DType dtype : kAllDTypes) grid.allgather(dtype, rows, 11);
      });
      grid.group([&] {
        for (const DType dtype : kAllDTypes) grid.broadcast(dtype, kLarge, 1, false);
      });
      grid.group([&] {
        for (const DType dtype : kAllDTypes) grid.reducescatter({dtype, ReduceOp::kSum, 10, 61});
      });
    }
    grid.finish();
  }
}

TEST(MpiSession, process_sets_may_be_in_use_at_once) {
  Session session(open_job(), {});
  const int rank = session.topology().rank();
  const int size = session.topology().size();
  const std::vector<std::vector<int>> sets{{0, 1}, {1}, {0, size - 1}};
  std::vector<std::int32_t> ids;
  for (const std::vector<int>& ranks : sets) ids.push_back(add_set(session, ranks));
  std::map<std::size_t, std::unique_ptr<Grid>> grids;  // by set
  for (std::size_t step = 0; step < sets.size(); ++step) {
    // Each rank begins with another set.
    const std::size_t set = (step + static_cast<std::size_t>(rank)) % sets.size();
    if (!std::ranges::binary_search(sets[set], rank)) continue;
    grids[set] = std::make_unique<Grid>(session, GridScope{.process_set = ids[set]});
    Grid& grid = *grids[set];
    for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
      grid.allreduce({dtype, ReduceOp::kAverage, kLarge, true});
      grid.broadcast(dtype, kLarge, 0, false);
    }
  }
  // Members wait for each other here, so the order is the same for all.
  for (const auto& [set, grid] : grids) grid->finish();
  for (const std::vector<int>& ranks : sets) run(session, remove_process_set(ranks));
}

TEST(MpiSession, a_rank_that_has_joined_does_not_count) {
  Session session(open_job(), {});
  const int size = session.topology().size();
  for (int joined = 0; joined < size; ++joined) {
    if (session.topology().rank() != joined) {
      Grid grid(session, {.joined = {joined}});
      const auto rows = std::vector<std::int64_t>(static_cast<std::size_t>(size), 3);
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64}) {
        grid.allreduce({dtype, ReduceOp::kAverage, kLarge, true});
        grid.allreduce({dtype, ReduceOp::kMin, 100, false});
        grid.allgather(dtype, rows, 11);
        grid.alltoall(dtype, std::vector(rows.size(), rows), 11);
        grid.reducescatter({dtype, ReduceOp::kAverage, 10, 11});
        grid.broadcast(dtype, kLarge, (joined + 1) % size, false);
      }
      grid.finish();
    }
    EXPECT_GE(run(session, join())->value(), 0);
  }
  run(session, barrier());
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
  EXPECT_THAT(error_of(session, allreduce("x", ref(values))), HasSubstr("\n  1      [3]"));
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
