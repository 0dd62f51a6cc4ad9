#pragma once

#include <optional>
#include <string>

#include "stand_ins/nccl/communicator.h"
#include "stand_ins/nccl/operation.h"

namespace hora::fake_nccl {

/// When an operation whose turn it is begins: late on a slow rank, never when a fault strikes.
class Start {
 public:
  bool may_begin(Communicator& communicator, const Operation& operation);

 private:
  std::optional<Time> at_;
};

/// Ends the process unless the operation's buffers are in living allocations.
void touch_buffers(const Operation& operation, const Communicator& communicator);

/// Ends the process because two ranks' calls do not fit.
[[noreturn]] void end_for_difference(const Communicator& communicator, int peer, const std::string& own,
                                     const std::string& theirs);

/// Ends the process if the peer has finalized or destroyed its communicator while this rank waits for it.
void check_peer_stays(const Communicator& communicator, int peer, Presence seen, const Operation& operation);

}  // namespace hora::fake_nccl
