#include "collectives/alltoall.h"

#include <gtest/gtest.h>

#include "support/run_ranks.h"

namespace hora::testing {
namespace {

/// How many bytes one rank sends another.
using Amount = std::size_t (*)(int from, int to);

std::size_t nothing(int, int) {
  return 0;
}
std::size_t one_byte(int, int) {
  return 1;
}
std::size_t ragged(int from, int to) {
  return static_cast<std::size_t>((from * 7 + to * 3) % 5 * 11);
}
std::size_t only_to_others(int from, int to) {
  return from == to ? 0 : 13;
}
std::size_t only_to_itself(int from, int to) {
  return from == to ? 13 : 0;
}
std::size_t only_from_the_first(int from, int to) {
  return from == 0 ? static_cast<std::size_t>(to + 1) : 0;
}
std::size_t only_to_the_first(int from, int to) {
  return to == 0 ? static_cast<std::size_t>(from + 1) : 0;
}
std::size_t large(int from, int to) {
  return static_cast<std::size_t>(100'003 + from * 17 + to);
}

std::byte value(int from, int to, std::size_t at) {
  return static_cast<std::byte>(static_cast<std::size_t>(from * 41 + to * 13) + at * 7);
}

/// The bytes that a rank sends to all others or gets from them, and where each one's part begins.
struct Parts {
  Bytes data;
  std::vector<std::size_t> bounds{0};

  void append(int from, int to, std::size_t length) {
    for (std::size_t at = 0; at < length; ++at) data.push_back(value(from, to, at));
    bounds.push_back(data.size());
  }
};

void check(const Group& group, Amount amount) {
  Parts sent;
  Parts expected;
  for (int peer = 0; peer < group.size(); ++peer) {
    sent.append(group.rank(), peer, amount(group.rank(), peer));
    expected.append(peer, group.rank(), amount(peer, group.rank()));
  }
  Bytes got(expected.data.size(), std::byte{0xee});
  pairwise_alltoall(group, sent.data, sent.bounds, got, expected.bounds);
  EXPECT_TRUE(got == expected.data) << "rank " << group.rank() << " of " << group.size();
}

class PairwiseAlltoall : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, PairwiseAlltoall, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(PairwiseAlltoall, brings_every_part_to_its_rank_in_the_order_of_senders) {
  run_groups(GetParam(), [](const Group& group) {
    for (const Amount amount : {nothing, one_byte, ragged, only_to_others, only_to_itself,
                                only_from_the_first, only_to_the_first, large})
      check(group, amount);
  });
}

TEST_P(PairwiseAlltoall, does_not_depend_on_the_piece_size) {
  for (const std::uint64_t piece_bytes : {1, 7, 1000}) {
    run_groups(GetParam(), [](const Group& group) { check(group, ragged); },
               {.settings = {.piece_bytes = piece_bytes}});
  }
}

TEST_P(PairwiseAlltoall, calls_that_follow_one_another_do_not_mix) {
  run_groups(GetParam(), [](const Group& group) {
    for (int round = 0; round < 20; ++round) check(group, round % 2 == 0 ? ragged : only_to_the_first);
  });
}

}  // namespace
}  // namespace hora::testing
