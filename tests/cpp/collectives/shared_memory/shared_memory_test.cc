#include "collectives/shared_memory/shared_memory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "support/run_slots.h"

namespace hora::testing {
namespace {

constexpr std::size_t kSlotBytes = 4096;

using Values = std::vector<float>;

float value_of(int rank, std::size_t index) {
  return static_cast<float>((index * 7 + static_cast<std::size_t>(rank) * 31) % 1000);
}

Values values_of(int rank, std::size_t count) {
  Values values(count);
  for (std::size_t at = 0; at < count; ++at) values[at] = value_of(rank, at);
  return values;
}

std::byte* bytes_of(Values& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

/// The vector cut into tensors of one to `longest` elements.
Pieces pieces_of(const Values* input, Values* output, std::size_t count, std::size_t longest) {
  Pieces pieces(sizeof(float));
  std::size_t length = 1;
  for (std::size_t at = 0; at < count; at += length, length = length * 3 % longest + 1) {
    length = std::min(length, count - at);
    pieces.add(input == nullptr ? nullptr : reinterpret_cast<const std::byte*>(input->data() + at),
               output == nullptr ? nullptr : reinterpret_cast<std::byte*>(output->data() + at), length);
  }
  return pieces;
}

struct RouteCase {
  int ranks;
  Route route;
};

std::string name_of(const ::testing::TestParamInfo<RouteCase>& info) {
  const Route& route = info.param.route;
  return fmt::format("{}_ranks_{}_phase_{}_blocks_of_{}", info.param.ranks,
                     route.reduction == Route::Reduction::kOnePhase ? "one" : "two",
                     route.streaming ? "streaming" : "ordinary", route.block_bytes);
}

std::vector<RouteCase> all_routes() {
  std::vector<RouteCase> cases;
  for (const int ranks : {2, 3, 4, 7}) {
    for (const auto reduction : {Route::Reduction::kOnePhase, Route::Reduction::kTwoPhase}) {
      for (const bool streaming : {false, true}) {
        for (const std::uint32_t block : {64u, 1000u, 4096u, 1u << 19})
          cases.push_back({ranks, {reduction, streaming, block}});
      }
    }
  }
  return cases;
}

class SharedMemory : public ::testing::TestWithParam<RouteCase> {};

INSTANTIATE_TEST_SUITE_P(Routes, SharedMemory, ::testing::ValuesIn(all_routes()), name_of);

/// Around the sizes of notes, lines, blocks and the ring of slots.
std::vector<std::size_t> lengths_around(const Route& route) {
  std::vector<std::size_t> lengths{0, 1, 2, 13, 14, 15, 16, 17};
  const std::size_t block = std::min<std::size_t>(route.block_bytes, kSlotBytes) / sizeof(float);
  for (const std::size_t blocks : {1, 2, 4, 5}) {
    for (const std::size_t length : {blocks * block - 1, blocks * block, blocks * block + 1})
      lengths.push_back(length);
  }
  return lengths;
}

TEST_P(SharedMemory, allreduce_sums_in_place_and_not) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    for (const std::size_t length : lengths_around(route)) {
      Values expected(length);
      for (int peer = 0; peer < rank.size(); ++peer) {
        for (std::size_t at = 0; at < length; ++at) expected[at] += value_of(peer, at);
      }
      for (const bool in_place : {false, true}) {
        Values input = values_of(rank.rank(), length);
        Values output(length, -1);
        Values& result = in_place ? input : output;
        rank.run(batch++, [&](Slots& slots) {
          shared_allreduce(slots, pieces_of(&input, &result, length, 50), {DType::kFloat32, ReduceOp::kSum},
                           true, route);
        });
        ASSERT_EQ(result, expected) << length;
      }
    }
  });
}

TEST_P(SharedMemory, allreduce_leaves_out_ranks_that_have_joined) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    for (const std::size_t length : lengths_around(route)) {
      for (int absent = 0; absent < rank.size(); ++absent) {
        // Product shows that nothing stands in for the absent rank, not even a scaled one.
        Values expected(length, 1);
        for (int peer = 0; peer < rank.size(); ++peer)
          if (peer != absent)
            for (std::size_t at = 0; at < length; ++at) expected[at] *= 2 * static_cast<float>(at % 5);
        Values values(length);
        for (std::size_t at = 0; at < length; ++at) values[at] = static_cast<float>(at % 5);
        const bool is_absent = rank.rank() == absent;
        rank.run(batch++, [&](Slots& slots) {
          shared_allreduce(
              slots, pieces_of(is_absent ? nullptr : &values, is_absent ? nullptr : &values, length, 50),
              {DType::kFloat32, ReduceOp::kProduct, 2.0}, false, route);
        });
        if (is_absent) continue;
        ASSERT_EQ(values, expected) << length;
      }
    }
  });
}

TEST_P(SharedMemory, broadcast_comes_from_every_root) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    for (const std::size_t length : lengths_around(route)) {
      for (int root = 0; root < rank.size(); ++root) {
        const Values input = values_of(rank.rank(), length);
        Values output(length, -1);
        rank.run(batch++, [&](Slots& slots) {
          shared_broadcast(slots, pieces_of(&input, &output, length, 50), root, route);
        });
        ASSERT_EQ(output, values_of(root, length)) << length;
      }
    }
  });
}

TEST_P(SharedMemory, allgather_takes_parts_of_any_length) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    for (const std::size_t length : lengths_around(route)) {
      Values expected;
      std::vector<std::size_t> bounds{0};
      for (int peer = 0; peer < rank.size(); ++peer) {
        const Values part = values_of(peer, peer == 1 ? 0 : length + static_cast<std::size_t>(peer));
        expected.insert(expected.end(), part.begin(), part.end());
        bounds.push_back(expected.size() * sizeof(float));
      }
      Values data(expected.size(), -1);
      const auto own = static_cast<std::size_t>(rank.rank());
      std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(bounds[own] / sizeof(float)),
                  (bounds[own + 1] - bounds[own]) / sizeof(float),
                  data.begin() + static_cast<std::ptrdiff_t>(bounds[own] / sizeof(float)));
      rank.run(batch++, [&](Slots& slots) {
        shared_allgather(slots, std::as_writable_bytes(std::span(data)), bounds, route);
      });
      ASSERT_EQ(data, expected) << length;
    }
  });
}

TEST_P(SharedMemory, alltoall_takes_messages_of_any_length) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    const int size = rank.size();
    for (const std::size_t length : lengths_around(route)) {
      const auto count = [&](int from, int to) {
        return (from + 2 * to) % 3 == 0 ? 0 : length + static_cast<std::size_t>(to);
      };
      std::vector<std::size_t> bytes;
      Values source;
      Values expected;
      for (int from = 0; from < size; ++from) {
        for (int to = 0; to < size; ++to) {
          bytes.push_back(count(from, to) * sizeof(float));
          const Values message = values_of(from * size + to, count(from, to));
          if (from == rank.rank()) source.insert(source.end(), message.begin(), message.end());
          if (to == rank.rank()) expected.insert(expected.end(), message.begin(), message.end());
        }
      }
      Values destination(expected.size(), -1);
      rank.run(batch++, [&](Slots& slots) {
        shared_alltoall(slots, std::as_bytes(std::span(source)),
                        std::as_writable_bytes(std::span(destination)), bytes, route);
      });
      ASSERT_EQ(destination, expected) << length;
    }
  });
}

TEST_P(SharedMemory, reduce_scatter_sums_parts_of_any_length) {
  const Route route = GetParam().route;
  run_slots(GetParam().ranks, kSlotBytes, [&](SlotRank& rank) {
    std::uint64_t batch = 0;
    for (const std::size_t length : lengths_around(route)) {
      const auto count = [&](int owner) { return owner == 1 ? 0 : length + static_cast<std::size_t>(owner); };
      std::vector<Values> inputs;
      for (int owner = 0; owner < rank.size(); ++owner)
        inputs.push_back(values_of(rank.rank() + 100 * owner, count(owner)));
      Values output(count(rank.rank()), -1);
      Values expected(output.size());
      for (int peer = 0; peer < rank.size(); ++peer) {
        for (std::size_t at = 0; at < expected.size(); ++at)
          expected[at] += value_of(peer + 100 * rank.rank(), at);
      }
      std::vector<Pieces> parts;
      for (int owner = 0; owner < rank.size(); ++owner) {
        const auto at = static_cast<std::size_t>(owner);
        parts.push_back(pieces_of(&inputs[at], owner == rank.rank() ? &output : nullptr, count(owner), 50));
      }
      rank.run(batch++, [&](Slots& slots) {
        shared_reduce_scatter(slots, parts, {DType::kFloat32, ReduceOp::kSum}, true, route);
      });
      ASSERT_EQ(output, expected) << length;
    }
  });
}

/// Values in a rank's heap.
class HeapValues {
 public:
  HeapValues(const HostMemory& memory, const Values& values)
      : memory_(memory.allocate(values.size() * sizeof(float))), count_(values.size()) {
    if (!values.empty()) std::memcpy(memory_.get(), values.data(), count_ * sizeof(float));
  }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] Values values() const {
    Values values(count_);
    if (!values.empty()) std::memcpy(values.data(), memory_.get(), count_ * sizeof(float));
    return values;
  }

 private:
  std::shared_ptr<std::byte[]> memory_;
  std::size_t count_;
};

Values sum_of(int ranks, std::size_t length) {
  Values sum(length);
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t at = 0; at < length; ++at) sum[at] += value_of(rank, at);
  }
  return sum;
}

TEST(DirectAllreduce, sums_tensors_of_shared_heaps_in_place_and_not) {
  for (const int size : {2, 3, 7}) {
    run_slots(size, kSlotBytes, [](SlotRank& rank) {
      std::uint64_t batch = 0;
      for (const std::vector<std::size_t>& lengths : std::vector<std::vector<std::size_t>>{
               {1}, {17}, {5, 0, 1, 100}, {300'001}, {40, 1000, 3, 77'777}}) {
        // Heaps look different on every rank.
        const HeapValues other(rank.memory(), Values(static_cast<std::size_t>(rank.rank()) * 5000 + 1));
        std::vector<HeapValues> inputs;
        std::vector<HeapValues> outputs;
        std::vector<DirectTensor> in_place;
        std::vector<DirectTensor> apart;
        for (const std::size_t length : lengths) {
          inputs.emplace_back(rank.memory(), values_of(rank.rank(), length));
          outputs.emplace_back(rank.memory(), Values(length));
          in_place.push_back({inputs.back().data(), inputs.back().data(), length});
          apart.push_back({inputs.back().data(), outputs.back().data(), length});
        }
        for (const auto& tensors : {apart, in_place}) {
          rank.run(batch++, [&](Slots& slots) {
            EXPECT_TRUE(direct_allreduce(slots, tensors, {DType::kFloat32, ReduceOp::kSum}));
            EXPECT_FALSE(slots.took_route());
          });
        }
        for (std::size_t at = 0; at < lengths.size(); ++at) {
          EXPECT_EQ(inputs[at].values(), sum_of(rank.size(), lengths[at]));
          EXPECT_EQ(outputs[at].values(), sum_of(rank.size(), lengths[at]));
        }
      }
    });
  }
}

TEST(DirectAllreduce, of_several_groups_in_one_batch_and_others_after_it) {
  run_slots(3, kSlotBytes, [](SlotRank& rank) {
    for (std::uint64_t batch = 0; batch < 3; ++batch) {
      std::vector<HeapValues> values;
      for (int number = 0; number < 5; ++number)
        values.emplace_back(rank.memory(), values_of(rank.rank(), 1000));
      rank.run(batch, [&](Slots& slots) {
        for (const HeapValues& each : values) {
          const DirectTensor tensor{each.data(), each.data(), 1000};
          EXPECT_TRUE(direct_allreduce(slots, {&tensor, 1}, {DType::kFloat32, ReduceOp::kSum}));
        }
      });
      for (const HeapValues& each : values) EXPECT_EQ(each.values(), sum_of(rank.size(), 1000));
    }
  });
}

TEST(DirectAllreduce, leaves_tensors_that_overlap_to_others) {
  run_slots(2, kSlotBytes, [](SlotRank& rank) {
    const HeapValues values(rank.memory(), values_of(rank.rank(), 1000));
    std::byte* const data = values.data();
    const std::vector<std::vector<DirectTensor>> cases{
        {{data, data, 100}, {data, data, 100}},
        {{data, data, 100}, {data + 396, data + 396, 100}},
        {{data, data + 4, 100}},
        {{data, data + 2000, 100}, {data + 2000, data + 3000, 10}}};
    std::uint64_t batch = 0;
    for (const auto& tensors : cases) {
      rank.run(batch++, [&](Slots& slots) {
        EXPECT_FALSE(direct_allreduce(slots, tensors, {DType::kFloat32, ReduceOp::kSum}));
      });
    }
  });
}

TEST(DirectAllreduce, touches_nothing_unless_all_tensors_of_all_ranks_are_shared) {
  run_slots(3, kSlotBytes, [](SlotRank& rank) {
    for (std::uint64_t batch = 0; batch < 6; ++batch) {
      const HeapValues shared(rank.memory(), values_of(rank.rank(), 100));
      Values own = values_of(rank.rank(), 100);
      const bool is_odd = rank.rank() == static_cast<int>(batch % 3);
      std::byte* const first = is_odd && batch < 3 ? bytes_of(own) : shared.data();
      std::byte* const second = is_odd && batch >= 3 ? bytes_of(own) : shared.data();
      const std::vector<DirectTensor> tensors{{first, first, 50}, {second, second, 100}};
      rank.run(batch, [&](Slots& slots) {
        EXPECT_FALSE(direct_allreduce(slots, tensors, {DType::kFloat32, ReduceOp::kSum}));
        EXPECT_TRUE(slots.took_route());
      });
      EXPECT_EQ(shared.values(), values_of(rank.rank(), 100));
      EXPECT_EQ(own, values_of(rank.rank(), 100));
    }
  });
}

TEST(SharedExchange, may_happen_often_in_one_batch) {
  run_slots(3, kSlotBytes, [](SlotRank& rank) {
    for (std::uint64_t batch = 0; batch < 3; ++batch) {
      rank.run(batch, [&](Slots& slots) {
        for (std::int64_t number = 0; number < 20; ++number) {
          const std::int64_t own = number * 10 + rank.rank();
          const std::vector<std::int64_t> expected{number * 10, number * 10 + 1, number * 10 + 2};
          EXPECT_EQ(shared_exchange(slots, {&own, 1}), expected);
        }
      });
    }
  });
}

TEST(SharedExchange, brings_vectors_of_any_length_together) {
  for (const int size : {2, 3, 7}) {
    run_slots(size, kSlotBytes, [](SlotRank& rank) {
      std::uint64_t batch = 0;
      for (const std::size_t length : {1, 7, 8, 100, 3000}) {
        std::vector<std::int64_t> own(length);
        std::iota(own.begin(), own.end(), rank.rank() * 10'000);
        std::vector<std::int64_t> all;
        rank.run(batch++, [&](Slots& slots) { all = shared_exchange(slots, own); });
        for (int peer = 0; peer < rank.size(); ++peer) {
          const auto first = static_cast<std::size_t>(peer) * length;
          ASSERT_EQ(all[first], peer * 10'000);
          ASSERT_EQ(all[first + length - 1], peer * 10'000 + static_cast<int>(length) - 1);
        }
      }
    });
  }
}

/// Any members, sizes and routes after one another: a slot that is used too early shows as a wrong sum.
TEST(Slots, batches_of_changing_members_do_not_disturb_each_other) {
  for (const unsigned seed : {1u, 2u, 3u, 4u}) {
    for (const int size : {2, 3, 5}) {
      run_slots(size, kSlotBytes, [&](SlotRank& rank) {
        std::mt19937 random(seed);  // the same on all ranks
        for (std::uint64_t batch = 0; batch < 400; ++batch) {
          std::vector<int> members;
          for (int each = 0; each < rank.size(); ++each)
            if (random() % 3 != 0) members.push_back(each);
          const std::size_t length = std::size_t{1} << random() % 13;
          const Route route{random() % 2 == 0 ? Route::Reduction::kOnePhase : Route::Reduction::kTwoPhase,
                            random() % 2 == 0, random() % 2 == 0 ? 512u : 4096u};
          if (!std::ranges::binary_search(members, rank.rank())) continue;
          Values expected(length);
          for (const int member : members) {
            for (std::size_t at = 0; at < length; ++at)
              expected[at] += value_of(member + static_cast<int>(batch), at);
          }
          Values values = values_of(rank.rank() + static_cast<int>(batch), length);
          Pieces pieces(sizeof(float));
          pieces.add(bytes_of(values), bytes_of(values), length);
          rank.run(batch, members, [&](Slots& slots) {
            // Two collectives in one batch, as a group of two dtypes has.
            shared_allreduce(slots, pieces, {DType::kFloat32, ReduceOp::kMax}, true, route);
            for (std::size_t at = 0; at < length; ++at)
              values[at] = value_of(rank.rank() + static_cast<int>(batch), at);
            shared_allreduce(slots, pieces, {DType::kFloat32, ReduceOp::kSum}, true, route);
          });
          ASSERT_EQ(values, expected) << "batch " << batch << " seed " << seed;
        }
      });
    }
  }
}

}  // namespace
}  // namespace hora::testing
