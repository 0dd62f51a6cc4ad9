#include "negotiation/tree.h"

#include <algorithm>

namespace hora {
namespace {

/// The heap positions below and including `position`, level by level.
std::vector<int> heap_subtree(int position, int size, int arity) {
  std::vector<int> positions;
  for (int first = position, count = 1; first < size; first = first * arity + 1, count *= arity) {
    for (int at = first; at < std::min(size, first + count); ++at) positions.push_back(at);
  }
  return positions;
}

std::vector<int> heap_children(int position, int size, int arity) {
  std::vector<int> positions;
  for (int at = position * arity + 1; at <= position * arity + arity && at < size; ++at)
    positions.push_back(at);
  return positions;
}

}  // namespace

Tree::Tree(const Topology& topology, int rank, int arity) : rank_(rank), job_size_(topology.size()) {
  const int host = topology.host_of(rank_);
  const std::vector<int>& local = topology.ranks_on(host);
  const auto local_size = static_cast<int>(local.size());
  const auto local_rank = static_cast<int>(std::ranges::lower_bound(local, rank) - local.begin());

  if (local_rank > 0) {
    parent_ = local[static_cast<std::size_t>((local_rank - 1) / arity)];
  } else if (host > 0) {
    parent_ = topology.ranks_on((host - 1) / arity).front();
  }

  for (const int position : heap_children(local_rank, local_size, arity)) {
    children_.push_back(local[static_cast<std::size_t>(position)]);
    std::vector<int> ranks;
    for (const int below : heap_subtree(position, local_size, arity))
      ranks.push_back(local[static_cast<std::size_t>(below)]);
    subtrees_.emplace_back(std::move(ranks));
  }
  if (local_rank > 0) return;
  for (const int child_host : heap_children(host, topology.host_count(), arity)) {
    children_.push_back(topology.ranks_on(child_host).front());
    std::vector<int> ranks;
    for (const int below : heap_subtree(child_host, topology.host_count(), arity)) {
      const std::vector<int>& members = topology.ranks_on(below);
      ranks.insert(ranks.end(), members.begin(), members.end());
    }
    subtrees_.emplace_back(std::move(ranks));
  }
}

}  // namespace hora
