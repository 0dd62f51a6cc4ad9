#pragma once

#include "transport/group.h"

namespace hora {

/// Dissemination barrier (Hensgen, Finkel and Manber, 1988): in round d every rank signals the rank 2^d ahead
/// and waits for the one 2^d behind; after ceil(log2(size)) rounds each has heard, directly or not, from all
/// others.
void dissemination_barrier(const Group& group);

}  // namespace hora
