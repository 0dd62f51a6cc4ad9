#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace hora {

/// Wakes one sleeping thread. A ring while nobody sleeps is kept and ends the next sleep at once; it then
/// costs no system call.
///
/// Lock map: mutex_ guards the wait itself; rung_ and sleeping_ are atomics read without it.
class Bell {
 public:
  /// Any thread.
  void ring() {
    if (rung_.exchange(true) || !sleeping_.load()) return;
    {
      const std::lock_guard lock(mutex_);
    }
    changed_.notify_one();
  }

  /// The one owner: sleeps until the bell has been rung or the time is over.
  void sleep(Duration at_most) {
    sleeping_.store(true);
    if (!rung_.load()) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, at_most, [this] { return rung_.load(); });
    }
    sleeping_.store(false);
    rung_.store(false);
  }

 private:
  std::atomic<bool> rung_{false};
  std::atomic<bool> sleeping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace hora
