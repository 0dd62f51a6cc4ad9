#pragma once

#include <optional>

#include "base/clock.h"
#include "base/tcp.h"
#include "transport/wake/greeting.h"

namespace hora {

/// Connects this rank to the one that has invited it. Nothing when none of its addresses has given the right
/// answer by the deadline.
[[nodiscard]] std::optional<TcpSocket> dial(const Invitation& invitation, int rank, TimePoint deadline);

}  // namespace hora
