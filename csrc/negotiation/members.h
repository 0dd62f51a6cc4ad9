#pragma once

#include <cstddef>
#include <vector>

#include "core/rank_set.h"
#include "negotiation/tree.h"

namespace hora {

/// A process set as one node of the tree sees it: which of those that announce to it have members.
class Members {
 public:
  Members(const Tree& tree, RankSet ranks);
  /// All ranks of the job; costs each node no more than a count for each child.
  [[nodiscard]] static Members all(const Tree& tree);

  [[nodiscard]] const RankSet& ranks() const { return ranks_; }
  [[nodiscard]] bool has_self() const { return has_self_; }
  /// Number of members below a child.
  [[nodiscard]] int below(std::size_t child) const { return below_[child]; }
  /// Number of members in the subtree of this node.
  [[nodiscard]] int in_subtree() const { return in_subtree_; }
  /// Number of children with members, plus one if this rank is a member.
  [[nodiscard]] std::size_t sources() const { return sources_; }

 private:
  Members(RankSet ranks, bool has_self, std::vector<int> below);

  RankSet ranks_;
  bool has_self_;
  std::vector<int> below_;
  int in_subtree_;
  std::size_t sources_;
};

}  // namespace hora
