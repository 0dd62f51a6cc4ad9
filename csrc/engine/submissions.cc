#include "engine/submissions.h"

#include <utility>

namespace hora {

void Submissions::push(Submission submission) {
  const std::lock_guard lock(mutex_);
  if (closed_) throw *closed_;
  const Key& key = submission.request.key;
  if (!key.name.empty() && !names_in_use_.insert(key.name).second) {
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
  if (key.name.empty()) key.number = ++unnamed_calls_;
  queue_.push_back(std::move(submission));
}

void Submissions::release(const std::string& name) {
  if (name.empty()) return;
  const std::lock_guard lock(mutex_);
  names_in_use_.erase(name);
}

bool Submissions::take(std::vector<Submission>& taken) {
  taken.clear();
  const std::lock_guard lock(mutex_);
  taken.swap(queue_);
  return !taken.empty();
}

void Submissions::close(const Error& reason) {
  const std::lock_guard lock(mutex_);
  if (!closed_) closed_ = reason;
}

}  // namespace hora
