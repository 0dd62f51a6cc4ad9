#include "ops/ops.h"

namespace hora {

void check_barrier(const Submission&, int) {}

/// Agreement alone is the barrier: the batch exists because every rank has announced it.
void barrier_on_host(const HostCall&) {}

}  // namespace hora
