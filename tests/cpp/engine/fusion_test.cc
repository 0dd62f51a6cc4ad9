// Whatever travels together, the results are the same.

#include <gtest/gtest.h>

#include <atomic>
#include <span>

#include "api/session.h"
#include "engine/counters.h"
#include "negotiation/message.h"
#include "support/calls.h"
#include "support/disturbed_transport.h"
#include "support/grid.h"
#include "support/run_ranks.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

constexpr std::uint64_t kTiny = 64;
const std::uint64_t kThresholds[] = {0, kTiny, Settings{}.fusion_threshold, std::uint64_t{1} << 40};

/// Sizes around the tiny threshold, nothing, one element and something large.
std::vector<std::size_t> lengths(DType dtype) {
  const std::size_t at_threshold = kTiny / size_of(dtype);
  return {at_threshold - 1, at_threshold, at_threshold + 1, 1, 0, 1000, 3, 2, 5, 8, 0, 7};
}

double value_at(int rank, std::size_t number, std::size_t index) {
  return static_cast<double>((static_cast<std::size_t>(rank) * 3 + number * 5 + index) % 7) - 3;
}

void check_many_at_once(Session& session, DType dtype, ReduceOp op, bool in_place) {
  const int rank = session.topology().rank();
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  for (const std::size_t length : lengths(dtype)) {
    const Shape shape{static_cast<std::int64_t>(length)};
    const std::size_t number = inputs.size();
    inputs.emplace_back(dtype, shape, [&](std::size_t index) { return value_at(rank, number, index); });
    outputs.emplace_back(dtype, shape);
  }
  std::vector<HandlePtr> handles;
  for (std::size_t number = 0; number < inputs.size(); ++number) {
    TensorRef output = in_place ? inputs[number].ref() : outputs[number].ref();
    handles.push_back(
        session.submit(allreduce("t" + std::to_string(number), inputs[number].ref(), output, op)));
  }
  for (const HandlePtr& handle : handles) wait(session, handle);

  std::vector<double> contributions(static_cast<std::size_t>(session.topology().size()));
  for (std::size_t number = 0; number < inputs.size(); ++number) {
    const std::vector<double> got = (in_place ? inputs : outputs)[number].values();
    for (std::size_t index = 0; index < got.size(); ++index) {
      for (std::size_t from = 0; from < contributions.size(); ++from)
        contributions[from] = stored(dtype, value_at(static_cast<int>(from), number, index));
      const double expected = reduced(dtype, op, contributions);
      ASSERT_TRUE(close_enough(dtype, got[index], expected)) << got[index] << " instead of " << expected;
    }
  }
}

class Fusion : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Fusion, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(Fusion, results_do_not_depend_on_the_threshold) {
  for (const std::uint64_t threshold : kThresholds) {
    run_ranks(GetParam(),
              [](Session& session) {
                for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt16, DType::kFloat64}) {
                  for (const bool in_place : {false, true}) {
                    check_many_at_once(session, dtype, ReduceOp::kSum, in_place);
                    check_many_at_once(session, dtype, ReduceOp::kAverage, in_place);
                  }
                }
              },
              {.settings = {.fusion_threshold = threshold}});
  }
}

TEST_P(Fusion, different_dtypes_and_ops_at_once_do_not_mix) {
  run_ranks(GetParam(), [](Session& session) {
    const int size = session.topology().size();
    std::vector<float> sum{1, 2};
    std::vector<float> highest{static_cast<float>(session.topology().rank())};
    std::vector<std::int64_t> counts{3};
    std::vector<double> fact{session.topology().rank() + 1.0};
    std::vector<HandlePtr> handles{session.submit(allreduce("sum", ref(sum))),
                                   session.submit(allreduce("highest", ref(highest), ReduceOp::kMax)),
                                   session.submit(allreduce("counts", ref(counts))),
                                   session.submit(broadcast("fact", ref(fact), 0))};
    for (const HandlePtr& handle : handles) wait(session, handle);
    EXPECT_EQ(sum, (std::vector<float>{static_cast<float>(size), 2.0f * static_cast<float>(size)}));
    EXPECT_EQ(highest[0], static_cast<float>(size - 1));
    EXPECT_EQ(counts[0], 3 * size);
    EXPECT_EQ(fact[0], 1.0);
  });
}

/// The last byte numbers a message among those of its sender.
std::span<const std::byte> without_number(const Bytes& message) {
  return std::span(message).first(message.size() - 1);
}

/// Holds the first batch up at rank 0 until all ranks have announced `expected` tensors.
class Gate {
 public:
  explicit Gate(int expected) : missing_(expected) {}

  [[nodiscard]] std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> inner) {
    if (inner->topology().rank() == 0)
      return std::make_unique<DisturbedTransport>(std::move(inner),
                                                  Disturbance{.holds_data = [this] { return missing_ > 0; }});
    return std::make_unique<DisturbedTransport>(
        std::move(inner), Disturbance{.on_post = [this](int, const Bytes& message) {
          if (kind_of(message) == MessageKind::kAnnounce)
            missing_ -= static_cast<int>(decode_announcements(without_number(message), Cache(0)).size());
        }});
  }

  void count_own() { --missing_; }

 private:
  std::atomic<int> missing_;
};

TEST(GroupCommit, what_becomes_ready_while_a_batch_runs_travels_together_in_the_next) {
  constexpr int kRanks = 3;
  constexpr int kLater = 20;
  // Every rank but the first posts each tensor's announcement; the first counts itself when it has submitted.
  Gate gate((kRanks - 1) * (1 + kLater) + 1);
  run_ranks(
      kRanks,
      [&](Session& session) {
        std::vector<float> first(100, 1.0f);
        std::vector<std::vector<float>> later(kLater, std::vector<float>(10, 1.0f));
        std::vector<HandlePtr> handles{session.submit(allreduce("first", ref(first)))};
        // Only once the first batch is under way, for otherwise some of these might join it.
        while (session.counters().plans == 0) std::this_thread::yield();
        for (std::size_t number = 0; number < kLater; ++number)
          handles.push_back(session.submit(allreduce("t" + std::to_string(number), ref(later[number]))));
        if (session.topology().rank() == 0) gate.count_own();
        for (const HandlePtr& handle : handles) wait(session, handle);
        EXPECT_EQ(session.counters().batches, 2u);
        EXPECT_EQ(session.counters().tensors, 1u + kLater);
        for (const auto& tensor : later) EXPECT_EQ(tensor, std::vector<float>(10, kRanks));
      },
      {.settings = {.cache_capacity = 0}, .wrap = [&](auto inner) { return gate.wrap(std::move(inner)); }});
}

}  // namespace
}  // namespace hora::testing
