#include "collectives/broadcast.h"

#include <gtest/gtest.h>

#include "support/run_ranks.h"

namespace hora::testing {
namespace {

class BinomialBroadcast : public ::testing::TestWithParam<int> {};

void expect_broadcast_from_every_root(const Group& group, std::size_t length) {
  for (int root = 0; root < group.size(); ++root) {
    Bytes data(length, static_cast<std::byte>(group.rank()));
    binomial_broadcast(group, data, root);
    ASSERT_TRUE(data == Bytes(length, static_cast<std::byte>(root))) << length << " bytes from " << root;
  }
}

TEST_P(BinomialBroadcast, reaches_every_rank_from_every_root) {
  run_groups(GetParam(), [](const Group& group) {
    for (const std::size_t length : {0, 1, 17, 100003}) expect_broadcast_from_every_root(group, length);
  });
}

TEST_P(BinomialBroadcast, does_not_depend_on_the_piece_size) {
  for (const std::uint64_t piece_bytes : {1, 7}) {
    run_groups(GetParam(), [](const Group& group) { expect_broadcast_from_every_root(group, 500); },
               {.settings = {.piece_bytes = piece_bytes}});
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, BinomialBroadcast, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace hora::testing
