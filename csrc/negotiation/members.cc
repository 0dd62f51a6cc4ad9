#include "negotiation/members.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hora {
namespace {

/// How many of the ranks below each child are members.
std::vector<int> count_below(const Tree& tree, const RankSet& ranks) {
  const std::vector<int> members = ranks.to_vector();
  const auto is_member = [&](int rank) { return std::ranges::binary_search(members, rank); };
  std::vector<int> below;
  for (std::size_t child = 0; child < tree.children().size(); ++child) {
    const std::vector<int> subtree = tree.subtree(child).to_vector();
    below.push_back(static_cast<int>(std::ranges::count_if(subtree, is_member)));
  }
  return below;
}

}  // namespace

Members::Members(const Tree& tree, RankSet ranks)
    : Members(ranks, ranks.contains(tree.rank()), count_below(tree, ranks)) {}

Members Members::all(const Tree& tree) {
  std::vector<int> below;
  for (std::size_t child = 0; child < tree.children().size(); ++child)
    below.push_back(tree.subtree(child).size());
  return {RankSet::range(0, tree.job_size()), true, std::move(below)};
}

Members::Members(RankSet ranks, bool has_self, std::vector<int> below)
    : ranks_(std::move(ranks)),
      has_self_(has_self),
      below_(std::move(below)),
      in_subtree_(std::accumulate(below_.begin(), below_.end(), has_self ? 1 : 0)),
      sources_(static_cast<std::size_t>(std::ranges::count_if(below_, [](int count) { return count > 0; })) +
               (has_self ? 1 : 0)) {}

}  // namespace hora
