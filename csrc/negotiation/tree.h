#pragma once

#include <optional>
#include <vector>

#include "core/rank_set.h"
#include "core/topology.h"

namespace hora {

/// The place of one rank in the tree along which agreement travels.
///
/// The ranks of a host form one subtree below the host's lowest rank, its leader; the leaders form a tree of
/// their own with rank 0 at the root. Both are heaps: the children of position p are positions k*p+1 ..
/// k*p+k. Each node therefore has at most 2k children whatever the number of ranks, and the depth grows with
/// its logarithm. Pure arithmetic on the topology.
class Tree {
 public:
  Tree(const Topology& topology, int arity) : Tree(topology, topology.rank(), arity) {}
  /// The place of any rank.
  Tree(const Topology& topology, int rank, int arity);

  [[nodiscard]] bool is_root() const { return !parent_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int job_size() const { return job_size_; }
  [[nodiscard]] std::optional<int> parent() const { return parent_; }
  [[nodiscard]] const std::vector<int>& children() const { return children_; }

  /// All ranks below and including `children()[child]`.
  [[nodiscard]] const RankSet& subtree(std::size_t child) const { return subtrees_[child]; }

 private:
  int rank_;
  int job_size_;
  std::optional<int> parent_;
  std::vector<int> children_;
  std::vector<RankSet> subtrees_;
};

}  // namespace hora
