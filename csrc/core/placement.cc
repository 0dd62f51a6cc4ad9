#include "core/placement.h"

#include <algorithm>
#include <utility>

namespace hora {
namespace {

int index_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
}

/// The ranks on each host that has any, by host.
std::vector<RankList> by_host(const Topology& topology, const std::vector<int>& ranks) {
  std::vector<std::vector<int>> members(static_cast<std::size_t>(topology.host_count()));
  for (const int rank : ranks) members[static_cast<std::size_t>(topology.host_of(rank))].push_back(rank);
  std::vector<RankList> hosts;
  for (std::vector<int>& host : members) {
    if (!host.empty()) hosts.push_back(std::make_shared<const std::vector<int>>(std::move(host)));
  }
  return hosts;
}

}  // namespace

Placement place(const Topology& topology, RankList ranks) {
  Placement placement;
  placement.ranks = std::move(ranks);
  const int own = topology.rank();
  placement.rank = index_of(*placement.ranks, own);
  placement.hosts = by_host(topology, *placement.ranks);
  const auto here = std::ranges::find_if(
      placement.hosts, [own](const RankList& host) { return std::ranges::binary_search(*host, own); });
  placement.host = static_cast<int>(here - placement.hosts.begin());
  placement.place = index_of(**here, own);
  placement.owners =
      static_cast<int>((*std::ranges::min_element(placement.hosts, {}, [](const RankList& host) {
                         return host->size();
                       }))->size());
  if (placement.place >= placement.owners) return placement;
  std::vector<int> across;
  for (const RankList& host : placement.hosts)
    across.push_back((*host)[static_cast<std::size_t>(placement.place)]);
  placement.across = std::make_shared<const std::vector<int>>(std::move(across));
  return placement;
}

}  // namespace hora
