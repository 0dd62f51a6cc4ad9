#pragma once

#include <ctime>

#include "base/clock.h"
#include "base/descriptor.h"

namespace hora {

// A bell that can be waited for beside sockets: an eventfd. A ring while nobody waits is kept.

/// Throws Error(kStartup) when no descriptors are left.
[[nodiscard]] Descriptor make_event();
/// Any thread.
void ring_event(int event);
/// Waits until the bell rings or the time is over, or something is there to read from a further descriptor.
void await_event(int event, Duration at_most, int further = -1);
/// Forgets that it has rung.
void hush_event(int event);

/// As ppoll takes it; what is over already is no time.
[[nodiscard]] timespec to_timespec(Duration duration);

}  // namespace hora
