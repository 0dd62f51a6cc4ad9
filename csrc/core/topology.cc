#include "core/topology.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"

namespace hora {

Topology::Topology(int rank, const std::vector<int>& host_of) : rank_(rank) {
  std::unordered_map<int, int> number_of;
  for (int member = 0; member < static_cast<int>(host_of.size()); ++member) {
    const auto [found, is_new] =
        number_of.try_emplace(host_of[static_cast<std::size_t>(member)], host_count());
    if (is_new) ranks_on_.emplace_back();
    auto& local = ranks_on_[static_cast<std::size_t>(found->second)];
    if (member == rank) local_rank_ = static_cast<int>(local.size());
    local.push_back(member);
    host_of_.push_back(found->second);
  }
}

Topology Topology::split(int rank, int size, const std::vector<int>& ranks_per_host) {
  if (std::accumulate(ranks_per_host.begin(), ranks_per_host.end(), 0) != size) {
    raise(ErrorKind::kInvalidArgument, "HORA_HOST_SPLIT={}: the sum must be the number of ranks, {}",
          join(ranks_per_host, ","), size);
  }
  std::vector<int> host_of;
  for (int host = 0; host < static_cast<int>(ranks_per_host.size()); ++host) {
    host_of.insert(host_of.end(), static_cast<std::size_t>(ranks_per_host[static_cast<std::size_t>(host)]),
                   host);
  }
  return Topology(rank, host_of);
}

int Topology::cross_rank() const {
  const int own_host = host_of(rank_);
  return static_cast<int>(std::ranges::count_if(
      ranks_on_.begin(), ranks_on_.begin() + own_host,
      [this](const auto& ranks) { return static_cast<int>(ranks.size()) > local_rank_; }));
}

int Topology::cross_size() const {
  return static_cast<int>(std::ranges::count_if(
      ranks_on_, [this](const auto& ranks) { return static_cast<int>(ranks.size()) > local_rank_; }));
}

bool Topology::is_homogeneous() const {
  return std::ranges::all_of(ranks_on_,
                             [this](const auto& ranks) { return ranks.size() == ranks_on_[0].size(); });
}

}  // namespace hora
