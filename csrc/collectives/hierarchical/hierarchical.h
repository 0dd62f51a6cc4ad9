#pragma once

#include "base/buffer.h"
#include "collectives/kernels.h"
#include "collectives/shared_memory/pieces.h"
#include "core/route.h"
#include "transport/group.h"
#include "transport/shm/slots.h"

namespace hora {

// Collectives of a group that is spread over hosts (see `Hosts`): what has to cross hosts does so once, and
// the rest goes through the memory that the ranks of a host share. Each is explained in its file.

/// Every rank gets the reduction of all. The pieces of a rank that has joined have neither input nor output.
/// The caller keeps both buffers to use them again.
void hierarchical_allreduce(const Group& group, const Pieces& pieces, const Reduction& reduction,
                            const Route& route, Buffer& staging, Buffer& scratch);

/// Every rank gets the input of the root, a rank of the group.
void hierarchical_broadcast(const Group& group, const Pieces& pieces, int root, const Route& route,
                            Buffer& staging);

}  // namespace hora
