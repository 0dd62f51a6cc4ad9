#include "base/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/thread.h"

namespace hora {

/// Where no thread can be started, too, nothing that `work` owns is let go of.
void Stragglers::start(std::string what, Duration limit, std::function<void()> work) {
  auto* const kept = new std::function<void()>(std::move(work));
  Place own;
  {
    const std::lock_guard lock(mutex_);
    own = at_work_.insert(at_work_.end(), {std::move(what), limit, Clock::now() + limit});
  }
  std::thread([all = shared_from_this(), own, kept] {
    name_this_thread("hora-straggler");
    (*kept)();
    delete kept;
    all->finish(own);
  }).detach();
}

void Stragglers::finish(Place own) {
  const std::lock_guard lock(mutex_);
  at_work_.erase(own);
  changed_.notify_all();
}

std::string Stragglers::wait() {
  std::unique_lock lock(mutex_);
  while (!at_work_.empty()) {
    const Straggler& first = *std::ranges::min_element(at_work_, {}, &Straggler::deadline);
    const TimePoint deadline = first.deadline;
    if (Clock::now() > deadline) {
      return fmt::format("{} has not come back after {:.0f} s", first.what,
                         std::chrono::duration<double>(first.limit).count());
    }
    changed_.wait_until(lock, deadline);
  }
  return {};
}

}  // namespace hora
