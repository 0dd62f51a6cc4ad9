#include "core/topology.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "base/error.h"

namespace hora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Value>
std::vector<int> of_each_rank(const std::vector<int>& host_of, Value value) {
  std::vector<int> values;
  for (int rank = 0; rank < static_cast<int>(host_of.size()); ++rank)
    values.push_back(value(Topology(rank, host_of)));
  return values;
}

TEST(Topology, one_rank_is_alone_everywhere) {
  const Topology topology(0, {42});
  EXPECT_EQ(topology.rank(), 0);
  EXPECT_EQ(topology.size(), 1);
  EXPECT_EQ(topology.local_rank(), 0);
  EXPECT_EQ(topology.local_size(), 1);
  EXPECT_EQ(topology.cross_rank(), 0);
  EXPECT_EQ(topology.cross_size(), 1);
  EXPECT_EQ(topology.host_count(), 1);
  EXPECT_TRUE(topology.is_homogeneous());
}

TEST(Topology, local_ranks_count_within_the_host) {
  const std::vector<int> host_of{5, 5, 5, 9, 9};
  EXPECT_THAT(of_each_rank(host_of, [](const Topology& t) { return t.local_rank(); }),
              ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(of_each_rank(host_of, [](const Topology& t) { return t.local_size(); }),
              ElementsAre(3, 3, 3, 2, 2));
}

TEST(Topology, cross_ranks_count_the_hosts_that_have_such_a_local_rank) {
  const std::vector<int> host_of{0, 1, 1, 1, 2, 2};
  EXPECT_THAT(of_each_rank(host_of, [](const Topology& t) { return t.cross_rank(); }),
              ElementsAre(0, 1, 0, 0, 2, 1));
  EXPECT_THAT(of_each_rank(host_of, [](const Topology& t) { return t.cross_size(); }),
              ElementsAre(3, 3, 2, 1, 3, 2));
}

TEST(Topology, ranks_of_a_host_need_not_be_neighbours) {
  const std::vector<int> host_of{7, 3, 7, 3, 7};
  const Topology topology(2, host_of);
  EXPECT_EQ(topology.host_count(), 2);
  EXPECT_THAT(topology.ranks_on(0), ElementsAre(0, 2, 4));
  EXPECT_THAT(topology.ranks_on(1), ElementsAre(1, 3));
  EXPECT_EQ(topology.local_rank(), 1);
}

TEST(Topology, hosts_are_numbered_by_their_lowest_rank) {
  const Topology topology(0, {30, 10, 20, 10});
  EXPECT_EQ(topology.host_of(0), 0);
  EXPECT_EQ(topology.host_of(1), 1);
  EXPECT_EQ(topology.host_of(2), 2);
  EXPECT_EQ(topology.host_of(3), 1);
}

TEST(Topology, is_homogeneous_only_when_all_hosts_have_as_many_ranks) {
  EXPECT_TRUE(Topology(0, {0, 0, 1, 1}).is_homogeneous());
  EXPECT_TRUE(Topology(0, {0, 1, 2}).is_homogeneous());
  EXPECT_FALSE(Topology(0, {0, 0, 1}).is_homogeneous());
}

TEST(Topology, a_split_puts_neighbouring_ranks_on_a_host) {
  const Topology topology = Topology::split(3, 5, {3, 2});
  EXPECT_EQ(topology.rank(), 3);
  EXPECT_EQ(topology.size(), 5);
  EXPECT_THAT(topology.ranks_on(0), ElementsAre(0, 1, 2));
  EXPECT_THAT(topology.ranks_on(1), ElementsAre(3, 4));
  EXPECT_EQ(topology.local_rank(), 0);
  EXPECT_EQ(topology.cross_rank(), 1);
}

TEST(Topology, a_split_that_does_not_fit_the_number_of_ranks_is_refused_with_both_numbers) {
  try {
    static_cast<void>(Topology::split(0, 4, {3, 2}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("HORA_HOST_SPLIT=3,2"));
    EXPECT_THAT(error.what(), HasSubstr("4"));
  }
}

TEST(Topology, local_and_cross_ranks_together_tell_every_rank_from_the_others) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    std::vector<int> host_of(1 + random() % 20);
    for (int& host : host_of) host = static_cast<int>(random() % 5);
    std::vector<std::pair<int, int>> places;
    for (int rank = 0; rank < static_cast<int>(host_of.size()); ++rank) {
      const Topology topology(rank, host_of);
      ASSERT_LT(topology.local_rank(), topology.local_size());
      ASSERT_LT(topology.cross_rank(), topology.cross_size());
      places.emplace_back(topology.local_rank(), topology.cross_rank());
    }
    std::ranges::sort(places);
    ASSERT_EQ(std::ranges::adjacent_find(places), places.end()) << "round " << round;
  }
}

}  // namespace
}  // namespace hora
