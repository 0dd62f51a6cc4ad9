#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "collectives/shared_memory/shared_memory.h"
#include "support/run_slots.h"
#include "support/shared_values.h"

namespace hora::testing {
namespace {

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

}  // namespace
}  // namespace hora::testing
