#pragma once

#include <cstdint>

#include "transport/transport.h"

namespace hora {

/// Until when other ranks are waited for while a session starts.
class StartDeadline {
 public:
  explicit StartDeadline(Duration timeout) : timeout_(timeout), end_(Clock::now() + timeout) {}

  /// Throws Error(kSessionFailed) when it is too late.
  void await(Transport& transport, Ticket ticket) const;

 private:
  Duration timeout_;
  TimePoint end_;
};

/// The smallest of what all ranks of a job bring; all of them call it, before the first collective. Throws
/// Error(kSessionFailed) when some rank does not come in time.
///
/// Dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988): in round k
/// every rank tells the one 2^k further what it knows, so that after log2(size) rounds everyone has heard of
/// all.
[[nodiscard]] std::int64_t smallest(Transport& transport, std::int64_t own, Duration timeout);

}  // namespace hora
