#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace hora {

/// Threads that end what a failed session has left behind and may never come back. Nobody joins them; before
/// the next session of the process starts, it asks whether they are through.
///
/// Lock map: at_work_ -> mutex_.
class Stragglers : public std::enable_shared_from_this<Stragglers> {
 public:
  /// Runs `work` on a thread of its own. What it owns is let go of there when it is through, and never if it
  /// does not come back. `what` names it, `limit` is how long it may take.
  void start(std::string what, Duration limit, std::function<void()> work);

  /// Blocks until all are through or have had their time; says which one is not through, and "" when all are.
  [[nodiscard]] std::string wait();

 private:
  struct Straggler {
    std::string what;
    Duration limit;
    TimePoint deadline;
  };
  using Place = std::list<Straggler>::iterator;

  void finish(Place own);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Straggler> at_work_;
};

}  // namespace hora
