#pragma once

#include <cstddef>
#include <vector>

#include "core/rank_set.h"
#include "negotiation/tree.h"

namespace hora {

/// A process set as one node of the tree sees it: which of those that announce to it have members.
class Members {
 public:
  /// `ranks` ascending.
  Members(const Tree& tree, std::vector<int> ranks);

  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }
  [[nodiscard]] bool contains(int rank) const;
  [[nodiscard]] bool has_self() const { return has_self_; }
  /// Number of members below a child.
  [[nodiscard]] int below(std::size_t child) const { return below_[child]; }
  /// Number of members in the subtree of this node.
  [[nodiscard]] int in_subtree() const { return in_subtree_; }
  /// Number of children with members, plus one if this rank is a member.
  [[nodiscard]] std::size_t sources() const { return sources_; }

 private:
  std::vector<int> ranks_;
  bool has_self_;
  std::vector<int> below_;
  int in_subtree_;
  std::size_t sources_;
};

}  // namespace hora
