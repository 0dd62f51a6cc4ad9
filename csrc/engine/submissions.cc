#include "engine/submissions.h"

#include <utility>

namespace hora {

void Submissions::push(Submission submission) {
  const std::lock_guard lock(mutex_);
  if (closed_) throw *closed_;
  const Key& key = submission.request.key;
  if (key.is_unique() && !in_use_.insert(key).second) {
    raise(ErrorKind::kInvalidArgument,
          "{} {}: an operation with this name is still in flight; synchronize it first, or use another name",
          name(submission.request.signature.op), key.to_string());
  }
  enqueue(std::move(submission));
}

void Submissions::push_refusal(Submission submission) {
  const std::lock_guard lock(mutex_);
  if (!closed_) enqueue(std::move(submission));
}

void Submissions::enqueue(Submission submission) {
  Key& key = submission.request.key;
  if (!key.is_unique()) key.number = ++unnamed_calls_[key.process_set];
  queue_.push_back(std::move(submission));
  if (holds_ == 0) has_queued_.store(true, std::memory_order_release);
}

void Submissions::push_wait(const Handle& handle) {
  const std::lock_guard lock(mutex_);
  waits_.push_back(&handle);
  has_queued_.store(true, std::memory_order_release);
}

std::vector<const Handle*> Submissions::take_waits() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waits_, {});
}

void Submissions::hold() {
  const std::lock_guard lock(mutex_);
  ++holds_;
}

void Submissions::let_go() {
  const std::lock_guard lock(mutex_);
  if (--holds_ == 0 && !queue_.empty()) has_queued_.store(true, std::memory_order_release);
}

void Submissions::require_open() const {
  const std::lock_guard lock(mutex_);
  if (closed_) throw *closed_;
}

void Submissions::release(const Key& key) {
  const std::lock_guard lock(mutex_);
  in_use_.erase(key);
}

void Submissions::restart_numbering(std::int32_t process_set) {
  const std::lock_guard lock(mutex_);
  unnamed_calls_.erase(process_set);
}

bool Submissions::take(std::vector<Submission>& taken) {
  taken.clear();
  if (!has_queued()) return false;
  const std::lock_guard lock(mutex_);
  if (holds_ > 0 && !closed_) return false;
  taken.swap(queue_);
  has_queued_.store(false, std::memory_order_relaxed);
  return !taken.empty();
}

void Submissions::close(const Error& reason) {
  const std::lock_guard lock(mutex_);
  if (!closed_) closed_ = reason;
  if (!queue_.empty()) has_queued_.store(true, std::memory_order_release);
}

}  // namespace hora
