#include "negotiation/members.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hora {
namespace {

/// What a node knows of a set can be told from all that it says.
void expect_same(const Members& one, const Members& other, const Tree& tree) {
  EXPECT_EQ(one.ranks(), other.ranks());
  EXPECT_EQ(one.has_self(), other.has_self());
  EXPECT_EQ(one.in_subtree(), other.in_subtree());
  EXPECT_EQ(one.sources(), other.sources());
  for (std::size_t child = 0; child < tree.children().size(); ++child)
    EXPECT_EQ(one.below(child), other.below(child));
}

TEST(Members, all_ranks_are_the_set_that_lists_them) {
  const Topology topology = Topology::split(0, 23, {7, 1, 5, 8, 2});
  std::vector<int> ranks(23);
  std::iota(ranks.begin(), ranks.end(), 0);
  for (const int rank : ranks) {
    const Tree tree(topology, rank, 2);
    expect_same(Members::all(tree), Members(tree, RankSet(ranks)), tree);
  }
}

TEST(Members, those_below_a_child_are_counted) {
  const Topology topology = Topology::split(0, 6, {3, 3});
  const Tree tree(topology, 0, 16);  // children 1 and 2 here, 3 with 4 and 5 on the other host
  const Members members(tree, RankSet({2, 3, 5}));
  EXPECT_FALSE(members.has_self());
  EXPECT_EQ(members.below(0), 0);
  EXPECT_EQ(members.below(1), 1);
  EXPECT_EQ(members.below(2), 2);
  EXPECT_EQ(members.in_subtree(), 3);
  EXPECT_EQ(members.sources(), 2u);
}

}  // namespace
}  // namespace hora
