#pragma once

#include <chrono>
#include <cstdint>

namespace hora {

/// The only clock. State machines take a time point as an argument instead of reading it.
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

[[nodiscard]] constexpr std::uint64_t whole_seconds(Duration duration) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(duration).count());
}

}  // namespace hora
