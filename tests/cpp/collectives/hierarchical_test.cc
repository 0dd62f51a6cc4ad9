// Collectives of ranks on several hosts that share memory on each.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>

#include "api/session.h"
#include "base/text.h"
#include "support/calls.h"
#include "support/disturbed_transport.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

struct Case {
  std::vector<int> split;
  bool doubling;
};

void PrintTo(const Case& kase, std::ostream* out) {
  *out << hora::join(kase.split, ",") << (kase.doubling ? " doubling" : " ring");
}

RunOptions options_of(const Case& kase) {
  return {.host_split = kase.split,
          .settings = {.route = {.block_bytes = 4096, .doubling = kase.doubling}},
          .shared_memory = true};
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}", hora::join(info.param.split, "_"), info.param.doubling ? "doubling" : "ring");
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool doubling : {false, true}) {
    for (const std::vector<int>& split :
         std::vector<std::vector<int>>{{2, 2}, {3, 1}, {1, 3}, {2, 2, 2}, {1, 2, 4}, {4, 4}, {2, 1, 2, 1, 2}})
      all.push_back({split, doubling});
  }
  return all;
}

int ranks_of(const Case& kase) {
  int sum = 0;
  for (const int ranks : kase.split) sum += ranks;
  return sum;
}

class Hierarchical : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Over, Hierarchical, ::testing::ValuesIn(cases()), name_of);

// Around the boundaries of lines, blocks and chunks: a block has 1024 elements of float32.
constexpr std::size_t kLengths[] = {0,    1,    2,    15,   16,   17,   100,  1023,  1024,
                                    1025, 2047, 2049, 4096, 5000, 8191, 8193, 50'001};

TEST_P(Hierarchical, allreduce_equals_the_serial_reference_at_every_length) {
  run_ranks(
      ranks_of(GetParam()),
      [](Session& session) {
        for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kInt32}) {
          Grid grid(session);
          for (const std::size_t length : kLengths)
            grid.allreduce({dtype, ReduceOp::kSum, length, length % 2 == 0});
          grid.allreduce({dtype, ReduceOp::kAverage, 3001, true, {0.5, 4}});
          grid.finish();
        }
      },
      options_of(GetParam()));
}

TEST_P(Hierarchical, broadcast_reaches_all_from_every_root) {
  run_ranks(
      ranks_of(GetParam()),
      [](Session& session) {
        Grid grid(session);
        for (int root = 0; root < session.topology().size(); ++root) {
          for (const bool in_place : {false, true}) {
            for (const std::size_t length : {0, 1, 1024, 5001})
              grid.broadcast(DType::kInt16, length, root, in_place);
          }
        }
        grid.finish();
      },
      options_of(GetParam()));
}

TEST_P(Hierarchical, groups_of_several_dtypes_and_process_sets_work) {
  run_ranks(
      ranks_of(GetParam()),
      [](Session& session) {
        Grid grid(session);
        grid.group([&] {
          for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kFloat32, DType::kFloat16})
            grid.allreduce({dtype, ReduceOp::kSum, 2500, true});
        });
        grid.finish();
        std::vector<int> odd;
        for (int rank = 1; rank < session.topology().size(); rank += 2) odd.push_back(rank);
        const std::int32_t set = add_set(session, odd);
        if (session.topology().rank() % 2 != 0) {
          Grid in_set(session, {.process_set = set});
          for (const std::size_t length : kLengths)
            in_set.allreduce({DType::kFloat32, ReduceOp::kMax, length, true});
          in_set.broadcast(DType::kFloat64, 999, 0, true);
          in_set.finish();
        }
        run(session, barrier());
      },
      options_of(GetParam()));
}

TEST_P(Hierarchical, ranks_that_have_joined_contribute_nothing) {
  run_ranks(
      ranks_of(GetParam()),
      [](Session& session) {
        if (session.topology().rank() == 1) {
          run(session, join());
          return;
        }
        Grid grid(session, {.joined = {1}});
        for (const std::size_t length : {1, 1025, 20'000})
          for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin})
            grid.allreduce({DType::kFloat32, op, static_cast<std::size_t>(length), true});
        grid.finish();
        run(session, join());
      },
      options_of(GetParam()));
}

/// Counts the bytes that a rank sends to other ranks outside shared memory.
class CountingTransport final : public ForwardingTransport {
 public:
  CountingTransport(std::unique_ptr<Transport> inner, std::atomic<std::size_t>& bytes)
      : ForwardingTransport(std::move(inner)), bytes_(bytes) {}

  [[nodiscard]] Ticket send(int peer, int tag, std::span<const std::byte> data) override {
    if (tag != kStartTag) bytes_ += data.size();
    return ForwardingTransport::send(peer, tag, data);
  }

 private:
  std::atomic<std::size_t>& bytes_;
};

TEST(HierarchicalTraffic, each_host_sends_only_what_two_single_ranks_would) {
  constexpr std::size_t kCount = 60'000;
  std::atomic<std::size_t> bytes{0};
  run_ranks(
      6, [](Session& session) { check_allreduce(session, {DType::kFloat32, ReduceOp::kSum, kCount, true}); },
      {.host_split = {3, 3},
       .settings = {.route = {.doubling = false}},
       .shared_memory = true,
       .wrap = [&](std::unique_ptr<Transport> inner) -> std::unique_ptr<Transport> {
         return std::make_unique<CountingTransport>(std::move(inner), bytes);
       }});
  // The check itself gathers a few bytes of its own.
  EXPECT_NEAR(static_cast<double>(bytes), 2.0 * kCount * sizeof(float), 2000);
}

/// The bits of one tensor, alone or amid others.
Bytes sum_amid(Session& session, std::size_t others) {
  const auto awkward = [&](std::size_t index) {
    return 1.0 / (3 + static_cast<double>(index) * 7 + session.topology().rank() * 1e3);
  };
  Tensor tensor(DType::kFloat32, {4000}, awkward);
  Tensor around(DType::kFloat32, {3333}, awkward);
  std::vector<HandlePtr> handles;
  Call call = allreduce("it", tensor.ref());
  if (others > 0) handles.push_back(session.submit(allreduce("first", around.ref())));
  handles.push_back(session.submit(std::move(call)));
  for (const HandlePtr& handle : handles) wait(session, handle);
  return tensor.bytes();
}

/// Whether a tensor's bits depend on whether it travels with another one.
bool depends_on_company(bool deterministic, bool shared_memory) {
  std::atomic<bool> depends{false};
  run_ranks(6,
            [&](Session& session) {
              const Bytes alone = sum_amid(session, 0);
              // Whether the two meet in one batch is a matter of time.
              for (int attempt = 0; attempt < 40; ++attempt) {
                if (sum_amid(session, 1) != alone) depends = true;
                run(session, barrier());
              }
            },
            {.host_split = {2, 2, 2},
             .settings = {.deterministic = deterministic, .route = {.doubling = false}},
             .shared_memory = shared_memory});
  return depends;
}

TEST(Deterministic, results_do_not_depend_on_what_travels_along) {
  for (const bool shared_memory : {false, true}) {
    EXPECT_TRUE(depends_on_company(false, shared_memory));
    EXPECT_FALSE(depends_on_company(true, shared_memory));
  }
}

}  // namespace
}  // namespace hora::testing
