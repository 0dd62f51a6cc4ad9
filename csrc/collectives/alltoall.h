#pragma once

#include <cstddef>
#include <span>

#include "transport/group.h"

namespace hora {

/// Pairwise exchange: in step s every rank sends to the rank s after it and receives from the one s before
/// it, so that each rank talks to one partner in each direction at a time. `send_bounds[r] ..
/// send_bounds[r+1]` is the byte range of `source` that rank r gets; `receive_bounds` cuts `destination` in
/// the same way by sender.
void pairwise_alltoall(const Group& group, std::span<const std::byte> source,
                       std::span<const std::size_t> send_bounds, std::span<std::byte> destination,
                       std::span<const std::size_t> receive_bounds);

}  // namespace hora
