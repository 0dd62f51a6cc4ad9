#include <algorithm>
#include <memory>
#include <type_traits>

#include "base/half.h"
#include "stand_ins/nccl_ranks.h"

namespace hora::fake_nccl::testing {
namespace {

/// Sizes of communicators; odd sizes do not block.
class FakeNcclCollectives : public FakeNccl, public ::testing::WithParamInterface<int> {
 protected:
  int size() const { return GetParam(); }
  std::size_t ranks() const { return static_cast<std::size_t>(GetParam()); }
  void run(const std::function<void(Rank&)>& body) const { run_ranks(size(), size() % 2 == 0, body); }
};

/// Pieces that do not fit evenly, of four bytes an element.
constexpr std::size_t kLarge = 300'001;

/// Nothing, one element, fewer elements than ranks, and more.
template <typename T>
std::vector<std::size_t> counts() {
  return {0, 1, 5, std::is_same_v<T, float> ? kLarge : 1009};
}

/// Small integers, so that sums are exact in every type.
template <typename T>
std::vector<T> values_of(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t at = 0; at < count; ++at)
    values[at] = static_cast<T>((static_cast<std::size_t>(rank) * 13 + at * 7) % 9);
  return values;
}

template <typename T>
std::vector<T> reduced(int size, std::size_t count, const std::function<T(T, T)>& combine) {
  std::vector<T> result = values_of<T>(0, count);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<T> more = values_of<T>(rank, count);
    for (std::size_t at = 0; at < count; ++at) result[at] = combine(result[at], more[at]);
  }
  return result;
}

template <typename T>
void expect_allreduce(Rank& rank, DataType type, RedOp op, const std::function<T(T, T)>& combine) {
  for (const std::size_t count : counts<T>()) {
    const DeviceVector<T> from(values_of<T>(rank.rank, count));
    const DeviceVector<T> to(count);
    ncclAllReduce(from.data(), to.data(), count, type, op, rank.comm, rank.stream());
    rank.finish();
    EXPECT_EQ(to.values(), reduced<T>(rank.size, count, combine)) << count;
  }
}

TEST_P(FakeNcclCollectives, allreduce_reduces_every_type) {
  run([](Rank& rank) {
    expect_allreduce<std::int8_t>(rank, DataType::kInt8, RedOp::kSum, std::plus<>());
    expect_allreduce<std::uint8_t>(rank, DataType::kUInt8, RedOp::kSum, std::plus<>());
    expect_allreduce<std::int32_t>(rank, DataType::kInt32, RedOp::kSum, std::plus<>());
    expect_allreduce<std::uint32_t>(rank, DataType::kUInt32, RedOp::kSum, std::plus<>());
    expect_allreduce<std::int64_t>(rank, DataType::kInt64, RedOp::kSum, std::plus<>());
    expect_allreduce<std::uint64_t>(rank, DataType::kUInt64, RedOp::kSum, std::plus<>());
    expect_allreduce<float>(rank, DataType::kFloat32, RedOp::kSum, std::plus<>());
    expect_allreduce<double>(rank, DataType::kFloat64, RedOp::kSum, std::plus<>());
  });
}

TEST_P(FakeNcclCollectives, allreduce_has_every_reduction) {
  run([](Rank& rank) {
    const auto larger = [](float a, float b) { return std::max(a, b); };
    const auto smaller = [](float a, float b) { return std::min(a, b); };
    expect_allreduce<float>(rank, DataType::kFloat32, RedOp::kProd, std::multiplies<>());
    expect_allreduce<float>(rank, DataType::kFloat32, RedOp::kMax, larger);
    expect_allreduce<float>(rank, DataType::kFloat32, RedOp::kMin, smaller);
  });
}

TEST_P(FakeNcclCollectives, allreduce_works_in_place) {
  run([](Rank& rank) {
    const DeviceVector<float> data(values_of<float>(rank.rank, kLarge));
    ncclAllReduce(data.data(), data.data(), data.count(), DataType::kFloat32, RedOp::kSum, rank.comm,
                  rank.stream());
    rank.finish();
    EXPECT_EQ(data.values(), reduced<float>(rank.size, data.count(), std::plus<>()));
  });
}

TEST_P(FakeNcclCollectives, broadcast_copies_from_each_root) {
  run([](Rank& rank) {
    for (int root = 0; root < rank.size; ++root) {
      for (const std::size_t count : counts<float>()) {
        const DeviceVector<float> from(values_of<float>(rank.rank, count));
        const DeviceVector<float> to(count);
        ncclBroadcast(from.data(), to.data(), count, DataType::kFloat32, root, rank.comm, rank.stream());
        rank.finish();
        EXPECT_EQ(to.values(), values_of<float>(root, count));
      }
    }
  });
}

TEST_P(FakeNcclCollectives, reducescatter_gives_each_rank_its_part) {
  run([](Rank& rank) {
    for (const std::size_t count : counts<float>()) {
      const std::size_t all = count * static_cast<std::size_t>(rank.size);
      const DeviceVector<float> from(values_of<float>(rank.rank, all));
      const DeviceVector<float> to(count);
      ncclReduceScatter(from.data(), to.data(), count, DataType::kFloat32, RedOp::kSum, rank.comm,
                        rank.stream());
      rank.finish();
      const auto expected = reduced<float>(rank.size, all, std::plus<>());
      const auto first = expected.begin() + static_cast<std::ptrdiff_t>(count) * rank.rank;
      EXPECT_EQ(to.values(), std::vector<float>(first, first + static_cast<std::ptrdiff_t>(count)));
    }
  });
}

TEST_P(FakeNcclCollectives, allgather_concatenates_in_place_or_not) {
  run([](Rank& rank) {
    for (const std::size_t count : counts<float>()) {
      std::vector<float> expected;
      for (int peer = 0; peer < rank.size; ++peer) {
        const std::vector<float> part = values_of<float>(peer, count);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      const DeviceVector<float> from(values_of<float>(rank.rank, count));
      const DeviceVector<float> to(expected.size());
      float* const own = to.data() + count * static_cast<std::size_t>(rank.rank);
      ncclAllGather(from.data(), to.data(), count, DataType::kFloat32, rank.comm, rank.stream());
      rank.finish();
      EXPECT_EQ(to.values(), expected);
      ncclAllGather(own, to.data(), count, DataType::kFloat32, rank.comm, rank.stream());
      rank.finish();
      EXPECT_EQ(to.values(), expected);
    }
  });
}

TEST_P(FakeNcclCollectives, a_group_of_sends_and_receives_exchanges_uneven_parts) {
  run([](Rank& rank) {
    // To each peer as many elements as the ranks' numbers say, nothing among them.
    const auto count_between = [](int from, int to) { return static_cast<std::size_t>(from * 100'000 + to); };
    std::vector<std::unique_ptr<DeviceVector<float>>> sent, received;
    ncclGroupStart();
    for (int peer = 0; peer < rank.size; ++peer) {
      sent.push_back(
          std::make_unique<DeviceVector<float>>(values_of<float>(rank.rank, count_between(rank.rank, peer))));
      received.push_back(std::make_unique<DeviceVector<float>>(count_between(peer, rank.rank)));
      ncclSend(sent.back()->data(), sent.back()->count(), DataType::kFloat32, peer, rank.comm, rank.stream());
      ncclRecv(received.back()->data(), received.back()->count(), DataType::kFloat32, peer, rank.comm,
               rank.stream());
    }
    ncclGroupEnd();
    rank.finish();
    for (int peer = 0; peer < rank.size; ++peer)
      EXPECT_EQ(received[static_cast<std::size_t>(peer)]->values(),
                values_of<float>(peer, count_between(peer, rank.rank)));
  });
}

TEST_P(FakeNcclCollectives, messages_between_two_ranks_keep_their_order) {
  run([](Rank& rank) {
    const int next = (rank.rank + 1) % rank.size;
    const int previous = (rank.rank + rank.size - 1) % rank.size;
    for (std::size_t round = 0; round < 3; ++round) {
      const DeviceVector<std::int32_t> first({rank.rank, 1}), second({rank.rank, 2, 3});
      const DeviceVector<std::int32_t> to_first(2), to_second(3);
      ncclGroupStart();
      ncclSend(first.data(), 2, DataType::kInt32, next, rank.comm, rank.stream());
      ncclSend(second.data(), 3, DataType::kInt32, next, rank.comm, rank.stream());
      ncclRecv(to_first.data(), 2, DataType::kInt32, previous, rank.comm, rank.stream());
      ncclRecv(to_second.data(), 3, DataType::kInt32, previous, rank.comm, rank.stream());
      ncclGroupEnd();
      rank.finish();
      EXPECT_EQ(to_first.values(), (std::vector<std::int32_t>{previous, 1}));
      EXPECT_EQ(to_second.values(), (std::vector<std::int32_t>{previous, 2, 3}));
    }
  });
}

TEST_P(FakeNcclCollectives, launches_that_are_not_waited_for_run_in_their_order) {
  run_ranks(size(), true, [](Rank& rank) {
    const DeviceVector<std::int64_t> data(std::vector<std::int64_t>{1});
    for (int round = 0; round < 3; ++round)
      ncclAllReduce(data.data(), data.data(), 1, DataType::kInt64, RedOp::kSum, rank.comm, rank.stream());
    rank.finish();
    EXPECT_EQ(data.values().front(), std::int64_t{rank.size} * rank.size * rank.size);
  });
}

/// One average of the same value on all ranks.
template <typename T>
T average(Rank& rank, DataType type, T value) {
  const DeviceVector<T> data(std::vector<T>{value});
  ncclAllReduce(data.data(), data.data(), 1, type, RedOp::kAvg, rank.comm, rank.stream());
  rank.finish();
  return data.values().front();
}

TEST_F(FakeNccl, integer_averages_divide_the_wrapped_sum_toward_zero) {
  run_ranks(3, false, [](Rank& rank) {
    const auto own = [&](std::int32_t last) { return rank.rank == 2 ? last : 0; };
    EXPECT_EQ(average<std::int32_t>(rank, DataType::kInt32, own(-5)), -1);
    EXPECT_EQ(average<std::int32_t>(rank, DataType::kInt32, own(5)), 1);
    EXPECT_EQ(average<std::int8_t>(rank, DataType::kInt8, 100), 44 / 3);
    EXPECT_EQ(average<std::uint8_t>(rank, DataType::kUInt8, 200), (600 - 512) / 3);
  });
}

TEST_F(FakeNccl, averages_of_halves_round_the_factor_to_their_type) {
  run_ranks(3, false, [](Rank& rank) {
    const float third = to_float(to_bfloat16(1.0f / 3));
    const BFloat16 got = average<BFloat16>(rank, DataType::kBFloat16, to_bfloat16(3));
    const BFloat16 part = to_bfloat16(3 * third);
    const BFloat16 two = to_bfloat16(to_float(part) + to_float(part));
    EXPECT_EQ(got.bits, to_bfloat16(to_float(two) + to_float(part)).bits);
    EXPECT_EQ(average<float>(rank, DataType::kFloat32, 3), 3.0f * (1.0f / 3) * 3);
  });
}

TEST_F(FakeNccl, halves_are_added_in_their_type_in_the_order_of_a_ring) {
  run_ranks(3, false, [](Rank& rank) {
    // 2048 + 1 is 2048 in float16, so the sum tells whether the ones were added before or after.
    const float value = rank.rank == 0 ? 2048 : 1;
    const DeviceVector<Float16> data(std::vector<Float16>(3, to_float16(value)));
    ncclAllReduce(data.data(), data.data(), 3, DataType::kFloat16, RedOp::kSum, rank.comm, rank.stream());
    rank.finish();
    const std::vector<Float16> sums = data.values();
    EXPECT_EQ(to_float(sums[0]), 2050);  // ranks 1, 2, 0
    EXPECT_EQ(to_float(sums[1]), 2048);  // ranks 2, 0, 1
    EXPECT_EQ(to_float(sums[2]), 2048);  // ranks 0, 1, 2
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, FakeNcclCollectives, ::testing::Values(1, 2, 3, 7));

}  // namespace
}  // namespace hora::fake_nccl::testing
