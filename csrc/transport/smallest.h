#pragma once

#include <chrono>
#include <cstdint>

#include "transport/transport.h"

namespace hora {

/// For all ranks to call init.
inline constexpr std::chrono::seconds kStartDeadline{60};

/// Waits for another rank while a session starts. Throws Error(kSessionFailed) when it is too late.
void await_at_start(Transport& transport, Ticket ticket, TimePoint deadline);

/// The smallest of what all ranks of a job bring; all of them call it, before the first collective. Throws
/// Error(kSessionFailed) when some rank does not come within a minute.
///
/// Dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988): in round k
/// every rank tells the one 2^k further what it knows, so that after log2(size) rounds everyone has heard of
/// all.
[[nodiscard]] std::int64_t smallest(Transport& transport, std::int64_t own);

}  // namespace hora
