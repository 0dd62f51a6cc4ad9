#include "core/handle.h"

#include <utility>

namespace hora {

bool Handle::wait_until(TimePoint deadline) {
  if (done()) return true;
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return done(); });
}

void Handle::report_to(std::shared_ptr<Completions> completions, void* ticket) {
  {
    const std::lock_guard lock(mutex_);
    if (!done()) {
      completions_ = std::move(completions);
      ticket_ = ticket;
      return;
    }
  }
  completions->push(ticket);
}

void Handle::succeed(std::vector<Output> outputs, std::int64_t value) {
  value_ = value;
  outputs_ = std::move(outputs);
  finish();
}

void Handle::fail(const Error& error) {
  error_ = error;
  finish();
}

void Handle::finish() {
  std::shared_ptr<Completions> completions;
  {
    const std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
    completions = std::move(completions_);
  }
  changed_.notify_all();
  if (completions != nullptr) completions->push(ticket_);
}

}  // namespace hora
