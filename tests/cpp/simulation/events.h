#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace hora::simulation {

/// Simulated nanoseconds since the beginning.
using Time = std::int64_t;
inline constexpr Time kMicrosecond = 1000;
inline constexpr Time kMillisecond = 1000 * kMicrosecond;

/// What happens when. Of two things at the same time, the one that was decided on first happens first.
class Events {
 public:
  using Action = std::function<void()>;

  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] std::uint64_t happened() const { return happened_; }

  void at(Time time, Action action) { queue_.push({time, decided_++, std::move(action)}); }
  void after(Time delay, Action action) { at(now_ + delay, std::move(action)); }

  /// Lets the next thing happen; says whether there was any.
  bool step() {
    if (queue_.empty()) return false;
    // The top of a priority_queue is constant only for the sake of its order, which does not look at actions.
    Event next = std::move(const_cast<Event&>(queue_.top()));
    queue_.pop();
    now_ = next.time;
    ++happened_;
    next.action();
    return true;
  }

 private:
  struct Event {
    Time time;
    std::uint64_t number;
    Action action;
    bool operator<(const Event& other) const {
      return std::pair(time, number) > std::pair(other.time, other.number);
    }
  };

  std::priority_queue<Event> queue_;
  Time now_ = 0;
  std::uint64_t decided_ = 0;
  std::uint64_t happened_ = 0;
};

}  // namespace hora::simulation
