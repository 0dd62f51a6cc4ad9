#pragma once

#include "base/clock.h"

namespace hora {

/// What the engine knows when it has found nothing to do.
struct RestState {
  Duration quiet;                       ///< since it last had something to do
  bool caller_waits;                    ///< a thread is blocked until an answer comes
  bool answer_due;                      ///< something of this rank has been announced and not yet agreed
  Duration since_call;                  ///< since this rank last submitted something
  bool notices_arrivals;                ///< the transport wakes the engine when a message comes
  bool moves_only_when_called = false;  ///< the transport may hold back what it was given until it is called
};

struct Rest {
  Duration time;            ///< zero: only yield the core
  bool ends_early = false;  ///< a message or a submission ends it; else only a thread that gives work back
};

/// How long to sleep before looking again.
///
/// A transport that notices arrivals lets the engine sleep until something happens, at no cost. But each
/// waking up costs up to 60 us on virtual machines, on the side of the waker too, so while this rank submits
/// one thing after the other the engine rather looks by itself every now and then. Where a transport may hold
/// something back, sleeps begin short and grow with the silence.
///
/// A transport that does not has to be polled: without pause while a caller waits for an answer that is
/// likely to come soon, otherwise with pauses that grow with the silence, up to 2 ms when nothing is due.
[[nodiscard]] Rest choose_rest(const RestState& state);

}  // namespace hora
