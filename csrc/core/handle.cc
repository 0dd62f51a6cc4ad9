#include "core/handle.h"

#include <utility>

namespace hora {

bool Handle::wait_until(TimePoint deadline) {
  if (done()) return true;
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return done(); });
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
  {
    const std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

}  // namespace hora
