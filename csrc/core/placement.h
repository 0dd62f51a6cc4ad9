#pragma once

#include <memory>
#include <vector>

#include "core/topology.h"

namespace hora {

/// Ranks of a job in an order that all of them know. Never changes.
using RankList = std::shared_ptr<const std::vector<int>>;

/// How the ranks of a process set are spread over hosts, as one of them sees it. Pure arithmetic on the
/// topology, the same on all of them but for what is said to be its own.
struct Placement {
  RankList ranks;               ///< all of them, ascending
  int rank = 0;                 ///< number of this rank among them
  std::vector<RankList> hosts;  ///< those on each host that has any, ascending
  int host = 0;                 ///< number of this rank's host among those
  int place = 0;                ///< number of this rank among those on its host
  int owners = 0;               ///< ranks of each host that own a slice of what crosses hosts: as many as the
                                ///< smallest host has
  RankList across;  ///< the ranks of this place, one of each host, by host; null where it owns no slice

  [[nodiscard]] const RankList& local() const { return hosts[static_cast<std::size_t>(host)]; }
  [[nodiscard]] bool is_one_host() const { return hosts.size() == 1; }
};

/// `ranks` ascending; the rank of the topology is one of them.
[[nodiscard]] Placement place(const Topology& topology, RankList ranks);

}  // namespace hora
