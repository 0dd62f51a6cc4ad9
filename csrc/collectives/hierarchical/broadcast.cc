#include "collectives/broadcast.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "collectives/hierarchical/hierarchical.h"
#include "collectives/shared_memory/shared_memory.h"

namespace hora {
namespace {

/// The rank of each host that gets the data from another host: the root on its own, elsewhere the first.
std::vector<int> representatives(const Placement& placement, int root) {
  std::vector<int> ranks;
  for (const RankList& host : placement.hosts)
    ranks.push_back(std::ranges::binary_search(*host, root) ? root : host->front());
  return ranks;
}

}  // namespace

/// One rank of each host gets the data over a binomial tree and passes it on to those of its host.
void hierarchical_broadcast(const Group& group, const Pieces& pieces, int root, const Route& route,
                            Buffer& staging) {
  const auto& [placement, slots, most_block_bytes] = *group.hosts();
  const auto rank_at = [](const std::vector<int>& ranks, int number) {
    return ranks[static_cast<std::size_t>(number)];
  };
  const int job_root = rank_at(*placement.ranks, root);
  auto chosen = std::make_shared<const std::vector<int>>(representatives(placement, job_root));
  const int here = rank_at(*chosen, placement.host);
  const auto root_host = static_cast<int>(std::ranges::find(*chosen, job_root) - chosen->begin());

  Pieces local(pieces.element_bytes());  // from one long vector into the tensors
  if (here == rank_at(*placement.ranks, placement.rank)) {
    const std::span<std::byte> data = staging.at_least(pieces.bytes());
    const bool is_root = here == job_root;
    pieces.visit(0, pieces.count(),
                 [&](const std::byte* input, std::byte* output, std::size_t at, std::size_t count) {
                   if (is_root) std::copy_n(input, count * pieces.element_bytes(), data.data() + at);
                   local.add(data.data() + at, is_root && output == input ? nullptr : output, count);
                 });
    binomial_broadcast(group.subset(std::move(chosen), placement.host), data, root_host);
  } else {
    local = pieces;
  }
  const std::vector<int>& ranks = *placement.local();
  const auto from = static_cast<int>(std::ranges::find(ranks, here) - ranks.begin());
  if (slots != nullptr) return shared_broadcast(*slots, local, from, route);
  local.visit(0, local.count(),
              [&](const std::byte* input, std::byte* output, std::size_t, std::size_t count) {
                if (output != nullptr) std::copy_n(input, count * local.element_bytes(), output);
              });
}

}  // namespace hora
