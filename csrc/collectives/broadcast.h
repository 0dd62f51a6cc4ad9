#pragma once

#include <cstddef>
#include <span>

#include "transport/group.h"

namespace hora {

/// Binomial-tree broadcast: ranks are numbered from the root on; in round d every rank below 2^d sends to the
/// rank 2^d above it, so all have the data after ceil(log2(size)) rounds.
void binomial_broadcast(const Group& group, std::span<std::byte> data, int root);

}  // namespace hora
