#pragma once

#include <cstdint>
#include <vector>

#include "ops/device.h"

namespace hora {

// Results whose sizes are known late may not find memory on some rank, when all have agreed on the call. Each
// rank puts memory aside when it calls, as if all passed the same number of rows (DeviceLane::has_reserves),
// and tells that with the rows. Where all have it and rows are equal, nothing can be missing; elsewhere ranks
// tell each other what is, so that the call fails on all of them and the job goes on.

/// What a rank tells the others: its rows, and whether it `has_reserve`.
[[nodiscard]] inline std::int64_t mark_rows(std::int64_t rows, bool has_reserve) {
  return 2 * rows + (has_reserve ? 1 : 0);
}

/// Makes rows of what all ranks have told; says whether they are equal and all ranks have a reserve. The same
/// on all ranks, when each has told all others the same or has told some that it has none.
[[nodiscard]] bool unmark_rows(std::vector<std::int64_t>& told);

/// Allocates the results of all tensors, which are described but for their memory. `is_reserved`, the same on
/// all ranks, says that all of them are put aside everywhere. Throws Error(kMismatch) on all ranks alike when
/// one has not got the memory.
void allocate_results(const DeviceCall& call, bool is_reserved);

}  // namespace hora
