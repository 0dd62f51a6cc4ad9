#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/placement.h"
#include "transport/group.h"
#include "transport/shm/slots.h"
#include "transport/transport.h"

namespace hora {

/// How the ranks of a session reach each other, for as long as it lasts. Collective over all ranks.
class Reach {
 public:
  /// Waits so long for the others.
  Reach(Transport& transport, Duration start_timeout);

 private:
  friend class BatchGroups;

  Transport& transport_;
  std::vector<int> local_ranks_;  // number on this host of each rank, -1 elsewhere
  SlotLedger ledger_;
  std::size_t most_block_bytes_;  // what fits into a slot on every host; 0 if some host has no slots
};

/// What the members of one batch talk through: one group, and the memory that they, or those of each host,
/// share.
class BatchGroups {
 public:
  BatchGroups(Reach& reach, const Placement& placement, const Batch& batch, const SlotWaits& waits);
  BatchGroups(const BatchGroups&) = delete;
  BatchGroups& operator=(const BatchGroups&) = delete;

  [[nodiscard]] const Group& all() const { return group_; }
  /// Whether the batch took place on one host and went the way that its route says.
  [[nodiscard]] bool took_route() const { return slots_ && !hosts_ && slots_->took_route(); }

 private:
  std::optional<Slots> slots_;
  std::optional<Hosts> hosts_;
  Group group_;
};

}  // namespace hora
