#include "core/rank_set.h"

#include <gmock/gmock.h>

#include <array>
#include <random>
#include <set>

namespace hora {
namespace {

using testing::ElementsAre;

RankSet through_the_wire(const RankSet& set) {
  ByteWriter out;
  set.write(out);
  const Bytes bytes = out.take();
  ByteReader in(bytes);
  RankSet read = RankSet::read(in);
  EXPECT_TRUE(in.empty());
  return read;
}

std::vector<int> every(int stride, int count) {
  std::vector<int> ranks;
  for (int at = 0; at < count; ++at) ranks.push_back(at * stride);
  return ranks;
}

TEST(RankSet, texts_name_ranks_the_way_people_write_them) {
  EXPECT_EQ(RankSet({3}).to_string(), "3");
  EXPECT_EQ(RankSet({3, 4}).to_string(), "3,4");
  EXPECT_EQ(RankSet({0, 1, 2, 4, 5, 6, 7}).to_string(), "0-2,4-7");
  EXPECT_EQ(RankSet({1, 7}).to_string(), "1,7");
  EXPECT_EQ(RankSet({0, 2, 4}).to_string(), "0,2,4");
  EXPECT_EQ(RankSet(every(2, 16)).to_string(), "0,2,..,30");
  EXPECT_EQ(RankSet().to_string(), "");
}

TEST(RankSet, order_and_repeats_of_the_input_do_not_matter) {
  EXPECT_EQ(RankSet({4, 0, 2, 0, 1, 4}), RankSet({0, 1, 2, 4}));
  EXPECT_THAT(RankSet({4, 0, 2, 0, 1, 4}).to_vector(), ElementsAre(0, 1, 2, 4));
}

TEST(RankSet, a_range_equals_the_set_of_its_ranks) {
  EXPECT_EQ(RankSet::range(3, 4), RankSet({3, 4, 5, 6}));
  EXPECT_EQ(RankSet::range(3, 1), RankSet::single(3));
  EXPECT_EQ(RankSet::range(3, 0), RankSet());
}

TEST(RankSet, size_and_lowest_count_every_run) {
  const RankSet set({9, 2, 3, 4, 20});
  EXPECT_EQ(set.size(), 5);
  EXPECT_EQ(set.lowest(), 2);
  EXPECT_EQ(RankSet().size(), 0);
}

TEST(RankSet, merging_unites) {
  RankSet set({0, 2, 4});
  set.merge(RankSet({1, 3, 4}));
  EXPECT_EQ(set, RankSet::range(0, 5));
  set.merge(RankSet());
  EXPECT_EQ(set, RankSet::range(0, 5));
}

TEST(RankSet, every_second_of_many_ranks_takes_a_few_bytes) {
  ByteWriter out;
  RankSet(every(2, 16384)).write(out);
  EXPECT_LE(out.take().size(), 8u);
}

TEST(RankSet, random_sets_keep_their_ranks_through_merge_and_wire) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int limit = 1 + static_cast<int>(random() % 60);
    std::set<int> expected;
    RankSet merged;
    for (int part = 0; part < 3; ++part) {
      std::vector<int> ranks;
      for (int count = static_cast<int>(random() % 20); count > 0; --count)
        ranks.push_back(static_cast<int>(random() % static_cast<unsigned>(limit)));
      expected.insert(ranks.begin(), ranks.end());
      merged.merge(RankSet(ranks));
    }
    ASSERT_EQ(merged.to_vector(), std::vector<int>(expected.begin(), expected.end())) << "round " << round;
    ASSERT_EQ(merged.size(), static_cast<int>(expected.size()));
    ASSERT_EQ(through_the_wire(merged), merged) << merged.to_string();
  }
}

TEST(RankSet, a_damaged_set_is_an_error) {
  ByteWriter out;
  RankSet({0, 5, 6, 7, 11}).write(out);
  Bytes bytes = out.take();
  bytes.pop_back();
  ByteReader in(bytes);
  EXPECT_THROW(static_cast<void>(RankSet::read(in)), Error);
}

TEST(RankSet, contains_its_ranks_and_no_others) {
  for (const std::vector<int>& ranks :
       {std::vector<int>{}, {3}, {0, 1, 2}, {1, 3, 5, 7, 20}, {0, 4, 8, 12, 13, 14, 30}}) {
    const RankSet set(ranks);
    for (int rank = -1; rank < 40; ++rank)
      EXPECT_EQ(set.contains(rank), std::ranges::find(ranks, rank) != ranks.end()) << rank;
  }
}

TEST(RankSet, what_is_no_set_of_ranks_is_an_error) {
  const auto read_runs = [](const std::vector<std::array<std::uint64_t, 3>>& runs) {
    ByteWriter out;
    out.varint(runs.size());
    for (const auto& [first, count, stride] : runs) {
      out.varint(first);
      out.varint(count);
      out.varint(stride);
    }
    const Bytes bytes = out.take();
    ByteReader in(bytes);
    return RankSet::read(in);
  };
  EXPECT_EQ(read_runs({{{0, 3, 2}}, {{5, 1, 1}}}), RankSet({0, 2, 4, 5}));
  const std::uint64_t huge = std::uint64_t{1} << 63;
  EXPECT_THROW(read_runs({{{0, 3, 0}}}), Error) << "no stride";
  EXPECT_THROW(read_runs({{{0, 0, 1}}}), Error) << "no rank";
  EXPECT_THROW(read_runs({{{huge, 1, 1}}}), Error);
  EXPECT_THROW(read_runs({{{0, huge, 1}}}), Error);
  EXPECT_THROW(read_runs({{{0, 2, huge}}}), Error);
  EXPECT_THROW(read_runs({{{1, kMostRanks, kMostRanks}}}), Error) << "beyond any job";
  EXPECT_THROW(read_runs({{{0, 3, 2}}, {{4, 1, 1}}}), Error) << "a rank twice";
}

}  // namespace
}  // namespace hora
