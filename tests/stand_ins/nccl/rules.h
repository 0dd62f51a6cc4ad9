#pragma once

#include "stand_ins/nccl/communicator.h"
#include "stand_ins/nccl/operation.h"

namespace hora::fake_nccl {

/// Whether NCCL knows such a call at all.
bool is_valid(const Operation& operation, const Communicator& communicator);

/// Ends the process if the call would work with NCCL by luck at best, or breaks our own rules.
void check_rules(const Operation& operation, Communicator& communicator);

}  // namespace hora::fake_nccl
