#include "core/placement.h"

#include <gmock/gmock.h>

#include <numeric>

namespace hora {
namespace {

using ::testing::ElementsAre;

RankList ranks(std::vector<int> list) {
  return std::make_shared<const std::vector<int>>(std::move(list));
}

std::vector<std::vector<int>> lists(const Placement& placement) {
  std::vector<std::vector<int>> all;
  for (const RankList& host : placement.hosts) all.push_back(*host);
  return all;
}

// Ranks 0 and 3 are on one host, 1, 4 and 5 on another, 2 alone.
Topology mixed(int rank) {
  return Topology(rank, {0, 1, 2, 0, 1, 1});
}

TEST(Placement, of_ranks_on_one_host_is_one_host) {
  const Placement placement = place(mixed(4), ranks({1, 4, 5}));
  EXPECT_TRUE(placement.is_one_host());
  EXPECT_EQ(placement.rank, 1);
  EXPECT_EQ(placement.place, 1);
  EXPECT_EQ(placement.owners, 3);
  EXPECT_THAT(*placement.across, ElementsAre(4));
}

TEST(Placement, lists_the_ranks_of_each_host_that_has_any) {
  const Placement placement = place(mixed(5), ranks({0, 1, 3, 5}));
  EXPECT_THAT(lists(placement), ElementsAre(ElementsAre(0, 3), ElementsAre(1, 5)));
  EXPECT_EQ(placement.host, 1);
  EXPECT_EQ(placement.place, 1);
  EXPECT_EQ(placement.rank, 3);
  EXPECT_EQ(placement.owners, 2);
  EXPECT_THAT(*placement.across, ElementsAre(3, 5));
  EXPECT_THAT(*placement.local(), ElementsAre(1, 5));
}

TEST(Placement, gives_slices_to_as_many_ranks_as_the_smallest_host_has) {
  const Placement first = place(mixed(4), ranks({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(first.owners, 1);
  EXPECT_EQ(first.across, nullptr);
  const Placement owner = place(mixed(1), ranks({0, 1, 2, 3, 4, 5}));
  EXPECT_THAT(*owner.across, ElementsAre(0, 1, 2));
}

TEST(Placement, keeps_the_order_of_hosts_where_ranks_are_not_in_it) {
  const Placement placement = place(mixed(3), ranks({3, 4}));
  EXPECT_THAT(*placement.across, ElementsAre(3, 4));
  const Placement of_places = place(mixed(3), ranks({0, 1, 3, 4}));
  EXPECT_THAT(*of_places.across, ElementsAre(3, 4));
}

}  // namespace
}  // namespace hora
