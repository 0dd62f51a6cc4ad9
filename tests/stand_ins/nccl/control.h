#pragma once

#include <chrono>
#include <cstdint>

#include "stand_ins/fake_nccl.h"

namespace hora::fake_nccl {

using Time = std::chrono::steady_clock::time_point;

Options options();

void count(std::uint64_t Counts::* what, std::uint64_t more = 1);
void log(const Call& call);

/// How long the `event`-th thing that a rank does later takes.
std::chrono::microseconds delay(int rank, std::uint64_t event);

// Injected faults. Those that strike a number of times are used up by asking.
std::chrono::microseconds slowness(int rank);
bool hang_strikes(int rank, std::uint64_t operation);
bool error_strikes(int rank, std::uint64_t operation);
bool init_fails();
bool allocation_fails();

}  // namespace hora::fake_nccl
