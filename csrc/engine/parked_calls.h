#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/exception.h"
#include "core/batch.h"
#include "core/submission.h"

namespace hora {

/// The calls of this rank that have been announced and not yet been agreed, and those that wait behind one of
/// the same name, which can only be refused calls.
class ParkedCalls {
 public:
  [[nodiscard]] bool empty() const { return announced_.empty(); }
  [[nodiscard]] bool contains(const Key& key) const { return announced_.contains(key); }
  /// Where the call was made, such as "train.py:41"; empty: not known.
  [[nodiscard]] std::string caller_of(const Key& key) const;
  /// The key of the call that this handle belongs to, or null.
  [[nodiscard]] const Key* key_of(const Handle* handle) const;

  /// Returns what to announce now; null: the call waits behind another.
  const Request* add(Submission submission);

  struct Taken {
    std::vector<Submission> calls;    ///< one per entry of the batch; what this rank has not called is absent
    std::vector<Submission> waiting;  ///< were behind them, to be added anew
  };
  /// Throws Error(kSessionFailed) if the batch names what this rank has not called and has not joined for.
  [[nodiscard]] Taken take(const Batch& batch);

  /// Keeps calls that were taken until the end of the session fails them with the rest. Their keys may have
  /// been announced anew meanwhile.
  void keep_for_end(std::vector<Submission>& calls);
  /// Fails all calls of a process set that was removed.
  void fail_set(std::int32_t process_set);
  [[nodiscard]] std::vector<Submission> take_all();

 private:
  void require_called(const Batch& batch) const;

  std::unordered_map<Key, Submission> announced_;
  std::unordered_map<Key, std::deque<Submission>> behind_;
};

}  // namespace hora
