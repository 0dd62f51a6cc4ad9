#pragma once

#include <chrono>

namespace hora {

/// The only clock. State machines take a time point as an argument instead of reading it.
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

}  // namespace hora
