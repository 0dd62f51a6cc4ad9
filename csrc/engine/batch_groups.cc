#include "engine/batch_groups.h"

#include <algorithm>
#include <limits>

#include "transport/smallest.h"

namespace hora {
namespace {

// Data of process set s travels under a tag of its own; MPI guarantees tags up to 32,767 only.
constexpr int kTags = Transport::kStartTag;

std::vector<int> number_local_ranks(const Topology& topology) {
  std::vector<int> local(static_cast<std::size_t>(topology.size()), -1);
  int number = 0;
  for (const int rank : topology.ranks_on(topology.host_of(topology.rank())))
    local[static_cast<std::size_t>(rank)] = number++;
  return local;
}

/// What fits into a slot of this host; a rank that is alone needs none.
std::int64_t slot_bytes(Transport& transport) {
  if (transport.topology().local_size() == 1) return std::numeric_limits<std::int64_t>::max();
  const HostMemory* const memory = transport.host_memory();
  return memory == nullptr ? 0 : static_cast<std::int64_t>(memory->layout().slot_bytes);
}

std::uint64_t piece_bytes(const Placement& placement, const Batch& batch) {
  return placement.is_one_host() ? batch.piece_bytes
                                 : std::min<std::uint64_t>(batch.piece_bytes, batch.route.across_bytes);
}

}  // namespace

Reach::Reach(Transport& transport, Duration start_timeout)
    : transport_(transport),
      local_ranks_(number_local_ranks(transport.topology())),
      most_block_bytes_(
          static_cast<std::size_t>(transport.topology().host_count() == 1
                                       ? slot_bytes(transport)
                                       : smallest(transport, slot_bytes(transport), start_timeout))) {}

BatchGroups::BatchGroups(Reach& reach, const Placement& placement, const Batch& batch, const SlotWaits& waits)
    : group_(reach.transport_, placement.ranks, placement.rank, batch.process_set() % kTags,
             piece_bytes(placement, batch), waits.while_waiting) {
  HostMemory* const memory = reach.transport_.host_memory();
  const bool spans_hosts = !placement.is_one_host();
  const bool is_one_of_several = placement.local()->size() > 1;
  if (memory != nullptr && is_one_of_several && (!spans_hosts || reach.most_block_bytes_ > 0)) {
    slots_.emplace(*memory, reach.ledger_, reach.local_ranks_, placement.local(), batch.number, waits);
    if (!spans_hosts) group_.use(*slots_);
  }
  // Where every rank is alone on its host there is nothing to share.
  if (!spans_hosts || reach.most_block_bytes_ == 0 || placement.hosts.size() == placement.ranks->size())
    return;
  hosts_.emplace(Hosts{placement, slots_ ? &*slots_ : nullptr, reach.most_block_bytes_});
  group_.use(*hosts_);
}

}  // namespace hora
