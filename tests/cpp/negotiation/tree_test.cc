#include "negotiation/tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace hora {
namespace {

/// All trees of one job, by rank.
std::vector<Tree> trees_of(int size, const std::vector<int>& host_split, int arity) {
  std::vector<Tree> trees;
  for (int rank = 0; rank < size; ++rank) trees.emplace_back(Topology::split(rank, size, host_split), arity);
  return trees;
}

std::vector<int> subtree_of(const std::vector<Tree>& trees, int rank) {
  std::vector<int> ranks{rank};
  for (const int child : trees[static_cast<std::size_t>(rank)].children()) {
    const std::vector<int> below = subtree_of(trees, child);
    ranks.insert(ranks.end(), below.begin(), below.end());
  }
  std::ranges::sort(ranks);
  return ranks;
}

/// Several ways to put `size` ranks on hosts.
std::vector<std::vector<int>> splits_of(int size) {
  std::vector<std::vector<int>> splits{{size}, std::vector<int>(static_cast<std::size_t>(size), 1)};
  if (size >= 3) splits.push_back({size - 2, 1, 1});
  if (size >= 3) splits.push_back({1, size - 1});
  std::vector<int> growing;
  for (int left = size, next = 1; left > 0; ++next) {
    growing.push_back(std::min(next, left));
    left -= growing.back();
  }
  splits.push_back(growing);
  return splits;
}

template <typename Check>
void for_many_jobs(Check check) {
  for (const int size : {1, 2, 3, 4, 5, 7, 8, 16, 17, 18, 33, 40, 100}) {
    for (const std::vector<int>& split : splits_of(size)) {
      for (const int arity : {1, 2, 3, 16}) {
        SCOPED_TRACE(testing::Message() << size << " ranks on " << split.size() << " hosts, arity " << arity);
        check(trees_of(size, split, arity), split, arity);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(Tree, every_rank_is_reached_exactly_once_from_rank_0) {
  for_many_jobs([](const std::vector<Tree>& trees, const auto&, int) {
    std::vector<int> all(trees.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(subtree_of(trees, 0), all);
  });
}

TEST(Tree, only_rank_0_is_the_root) {
  for_many_jobs([](const std::vector<Tree>& trees, const auto&, int) {
    for (const Tree& tree : trees) EXPECT_EQ(tree.is_root(), tree.rank() == 0);
  });
}

TEST(Tree, parents_and_children_agree) {
  for_many_jobs([](const std::vector<Tree>& trees, const auto&, int) {
    for (const Tree& tree : trees) {
      for (const int child : tree.children())
        EXPECT_EQ(trees[static_cast<std::size_t>(child)].parent(), tree.rank());
      if (!tree.parent()) continue;
      EXPECT_EQ(std::ranges::count(trees[static_cast<std::size_t>(*tree.parent())].children(), tree.rank()),
                1);
    }
  });
}

TEST(Tree, subtree_lists_hold_exactly_what_lies_below_each_child) {
  for_many_jobs([](const std::vector<Tree>& trees, const auto&, int) {
    for (const Tree& tree : trees) {
      for (std::size_t child = 0; child < tree.children().size(); ++child)
        EXPECT_EQ(tree.subtree(child).to_vector(), subtree_of(trees, tree.children()[child]));
    }
  });
}

TEST(Tree, no_rank_has_more_than_twice_the_arity_of_children) {
  for_many_jobs([](const std::vector<Tree>& trees, const auto&, int arity) {
    for (const Tree& tree : trees) EXPECT_LE(tree.children().size(), static_cast<std::size_t>(2 * arity));
  });
}

TEST(Tree, only_the_lowest_rank_of_a_host_talks_to_other_hosts) {
  for_many_jobs([](const std::vector<Tree>& trees, const std::vector<int>& split, int) {
    for (const Tree& tree : trees) {
      const Topology topology = Topology::split(tree.rank(), static_cast<int>(trees.size()), split);
      if (topology.local_rank() == 0) continue;
      for (const int child : tree.children())
        EXPECT_EQ(topology.host_of(child), topology.host_of(tree.rank()));
      EXPECT_EQ(topology.host_of(*tree.parent()), topology.host_of(tree.rank()));
    }
  });
}

TEST(Tree, depth_grows_with_the_logarithm_of_the_ranks) {
  const std::vector<Tree> trees = trees_of(1000, {1000}, 16);
  int deepest = 0;
  for (const Tree& tree : trees) {
    int depth = 0;
    for (auto at = tree.parent(); at; at = trees[static_cast<std::size_t>(*at)].parent()) ++depth;
    deepest = std::max(deepest, depth);
  }
  EXPECT_EQ(deepest, 3);
}

TEST(Tree, ranks_of_a_host_that_are_not_neighbours_still_form_one_subtree) {
  const std::vector<int> host_of{0, 1, 0, 1, 0, 1};
  const Tree root(Topology(0, host_of), 16);
  ASSERT_EQ(root.children(), (std::vector<int>{2, 4, 1}));
  EXPECT_EQ(root.subtree(2).to_vector(), (std::vector<int>{1, 3, 5}));
}

}  // namespace
}  // namespace hora
