#include "transport/shm/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "collectives/shared_memory/shared_memory.h"
#include "support/run_slots.h"
#include "support/shared_values.h"

namespace hora::testing {
namespace {

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
