#include "engine/parked_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "ops/table.h"

namespace hora {

std::string ParkedCalls::caller_of(const Key& key) const {
  const auto call = announced_.find(key);
  return call == announced_.end() || call->second.caller == nullptr ? std::string() : *call->second.caller;
}

const Key* ParkedCalls::key_of(const Handle* handle) const {
  const auto call =
      std::ranges::find_if(announced_, [&](const auto& each) { return each.second.handle.get() == handle; });
  return call == announced_.end() ? nullptr : &call->first;
}

const Request* ParkedCalls::add(Submission submission) {
  Key key = submission.request.key;
  if (contains(key)) {
    behind_[std::move(key)].push_back(std::move(submission));
    return nullptr;
  }
  return &announced_.emplace(std::move(key), std::move(submission)).first->second.request;
}

/// Only a rank that has joined takes part without having called.
void ParkedCalls::require_called(const Batch& batch) const {
  if (batch.process_set() == kGlobalSet && contains(Key::join())) return;
  for (const BatchEntry& entry : batch.entries) {
    if (contains(entry.key)) continue;
    raise(ErrorKind::kSessionFailed, "a batch names {}, which this rank has not submitted",
          entry.key.to_string());
  }
}

ParkedCalls::Taken ParkedCalls::take(const Batch& batch) {
  require_called(batch);
  Taken taken;
  for (const BatchEntry& entry : batch.entries) {
    if (auto node = announced_.extract(entry.key); !node.empty()) {
      taken.calls.push_back(std::move(node.mapped()));
    } else {
      Submission& absent = taken.calls.emplace_back();
      absent.is_absent = true;
      absent.handle = std::make_shared<Handle>(entry.key);
    }
    if (auto node = behind_.extract(entry.key); !node.empty())
      std::ranges::move(node.mapped(), std::back_inserter(taken.waiting));
  }
  return taken;
}

void ParkedCalls::keep_for_end(std::vector<Submission>& calls) {
  for (Submission& call : calls) behind_[call.request.key].push_back(std::move(call));
}

void ParkedCalls::fail_set(std::int32_t process_set) {
  const auto fail = [](const Submission& call) {
    const Request& request = call.request;
    call.handle->fail(
        Error(ErrorKind::kMismatch, fmt::format("{} {}: its process set was removed",
                                                name(request.signature.op), request.key.to_string())));
  };
  std::erase_if(announced_, [&](const auto& each) {
    if (each.first.process_set != process_set) return false;
    fail(each.second);
    return true;
  });
  std::erase_if(behind_, [&](const auto& each) {
    if (each.first.process_set != process_set) return false;
    std::ranges::for_each(each.second, fail);
    return true;
  });
}

std::vector<Submission> ParkedCalls::take_all() {
  std::vector<Submission> calls;
  for (auto& [key, call] : announced_) calls.push_back(std::move(call));
  for (auto& [key, behind] : behind_) std::ranges::move(behind, std::back_inserter(calls));
  announced_.clear();
  behind_.clear();
  return calls;
}

}  // namespace hora
