#pragma once

#include <cstddef>

#include "ops/table.h"

namespace hora {

/// Memory for the result of one tensor of a call, as it has been described. `together` is no less than what
/// all ranks need for it, and the same on all. If that is much, they make sure that each has got its part:
/// Throws Error(kMismatch) on all ranks where one has not.
void allocate_result(const HostCall& call, const OpTensor& tensor, std::size_t together);

}  // namespace hora
