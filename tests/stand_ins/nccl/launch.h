#pragma once

#include <memory>
#include <vector>

#include "stand_ins/nccl/communicator.h"
#include "stand_ins/nccl/operation.h"

namespace hora::fake_nccl {

/// Puts one group's calls on a communicator on their stream, as one piece of work: at once if the
/// communicator blocks, else on another thread a little later. Work of one communicator runs in the order of
/// launching, whatever its streams.
nccl::Result launch(const std::shared_ptr<Communicator>& communicator, std::vector<Operation> operations);

/// Ends all work of the communicator that is not complete. When it returns none of it touches memory any
/// more, and streams go on.
void end_work_of(const Communicator& communicator);

}  // namespace hora::fake_nccl
