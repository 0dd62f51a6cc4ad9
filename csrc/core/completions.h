#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace hora {

/// Where operations report that they are complete, for a thread that waits for whichever is next.
///
/// Lock map: tickets_ -> mutex_.
class Completions {
 public:
  /// `ticket` is what the waiting side gave to Handle::report_to.
  void push(void* ticket) {
    {
      const std::lock_guard lock(mutex_);
      tickets_.push_back(ticket);
    }
    changed_.notify_one();
  }

  /// Blocks until there is at least one and takes all, in the order of completion. A session completes
  /// everything that was submitted to it within its own deadlines.
  [[nodiscard]] std::vector<void*> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !tickets_.empty(); });
    return std::exchange(tickets_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<void*> tickets_;
};

}  // namespace hora
