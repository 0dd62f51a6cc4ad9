#pragma once

#include "base/clock.h"

namespace hora {

/// What the engine knows when it has found nothing to do.
struct RestState {
  Duration quiet;         ///< since it last had something to do
  bool caller_waits;      ///< a thread is blocked until an answer comes
  bool answer_due;        ///< something of this rank has been announced and not yet agreed
  bool notices_arrivals;  ///< the transport wakes the engine when a message comes
};

/// How long to sleep before looking again; zero means to yield the core only. A submission ends any sleep.
///
/// A transport that cannot wake the engine has to be polled: without pause while a caller waits for an answer
/// that is likely to come soon, otherwise with pauses that grow with the silence, up to 2 ms when nothing is
/// due. Each waking up costs up to 60 us on virtual machines, so that more of them would be felt as load.
[[nodiscard]] Duration choose_rest(const RestState& state);

}  // namespace hora
