#include "bounds/bounds.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatches = 15;
constexpr auto kPatience = std::chrono::seconds(1);
constexpr int kSpinsBeforeYield = 20'000;  // where cores are few the other side may need this one

struct alignas(64) Line {
  std::atomic<std::uint64_t> value;
};

/// Side 0 counts up `ping`, side 1 follows with `pong`; what the last call left is where the next begins.
struct Lines {
  Line ping;
  Line pong;
};

bool wait_for(const Line& line, std::uint64_t wanted) {
  for (int spins = 0; line.value.load(std::memory_order_acquire) != wanted;) {
    if (++spins < kSpinsBeforeYield) continue;
    const Clock::time_point until = Clock::now() + kPatience;
    while (line.value.load(std::memory_order_acquire) != wanted) {
      if (Clock::now() > until) return false;
      sched_yield();
    }
  }
  return true;
}

bool run_batch(Lines& lines, int side, std::uint64_t first, int round_trips) {
  for (std::uint64_t number = first; number < first + static_cast<std::uint64_t>(round_trips); ++number) {
    if (side == 0) lines.ping.value.store(number, std::memory_order_release);
    if (!wait_for(side == 0 ? lines.pong : lines.ping, number)) return false;
    if (side == 1) lines.pong.value.store(number, std::memory_order_release);
  }
  return true;
}

}  // namespace

double hora_bench_one_way_us(void* shared, int side, int round_trips) {
  Lines& lines = *static_cast<Lines*>(shared);
  std::array<double, kBatches> one_way{};
  std::uint64_t next =
      lines.pong.value.load() + 1;  // side 0 cannot get ahead of side 1, which alone writes it
  if (!run_batch(lines, side, next, round_trips)) return std::numeric_limits<double>::quiet_NaN();
  for (double& microseconds : one_way) {
    next += static_cast<std::uint64_t>(round_trips);
    const Clock::time_point start = Clock::now();
    if (!run_batch(lines, side, next, round_trips)) return std::numeric_limits<double>::quiet_NaN();
    microseconds = std::chrono::duration<double, std::micro>(Clock::now() - start).count() / 2 / round_trips;
  }
  std::ranges::nth_element(one_way, one_way.begin() + kBatches / 2);
  return one_way[kBatches / 2];
}

#ifdef __x86_64__
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void hora_bench_read_and_write(float* data, std::size_t count) {
  for (std::size_t at = 0; at < count; ++at) data[at] += 1.0f;
}
