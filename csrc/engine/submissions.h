#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "core/submission.h"

namespace hora {

/// The door between user threads and the engine: numbers unnamed calls, refuses a name that is still in use,
/// and queues the rest.
///
/// A name is in use until its handle has been waited for or seen complete, however fast the operation was:
/// whether a second call is accepted must not depend on timing.
///
/// Lock map: has_queued_ is an atomic; everything else -> mutex_.
class Submissions {
 public:
  /// Queues a submission; its key has a name, or none to be numbered. Throws when the name is in use, or the
  /// reason given to `close`.
  void push(Submission submission);

  /// Queues the announcement that this rank refused a call. It does not occupy its name, so that the caller
  /// can correct the call and repeat it at once.
  void push_refusal(Submission submission);

  /// Between the two, what is pushed is kept from the engine, to be announced together. Calls nest.
  void hold();
  void let_go();

  /// A thread waits for a call on a device.
  void push_wait(const Handle& handle);

  /// Throws the reason given to `close`.
  void require_open() const;

  /// Makes the name of a key usable again.
  void release(const Key& key);

  /// Engine: the next unnamed call of the set is the first again. A join ends so on all ranks, because those
  /// that joined early have made fewer calls.
  void restart_numbering(std::int32_t process_set);

  /// Engine: whether there is anything to take; costs a look at one cache line.
  [[nodiscard]] bool has_queued() const { return has_queued_.load(std::memory_order_acquire); }

  /// Engine: moves all queued submissions out; says whether there were any.
  [[nodiscard]] bool take(std::vector<Submission>& taken);

  /// Engine: handles for which threads wait since the last time; they may be gone.
  [[nodiscard]] std::vector<const Handle*> take_waits();

  /// Engine: lets nothing in any more.
  void close(const Error& reason);

 private:
  void enqueue(Submission submission);

  mutable std::mutex mutex_;
  std::unordered_map<std::int32_t, std::uint64_t> unnamed_calls_;  // by process set
  std::unordered_set<Key> in_use_;
  std::vector<Submission> queue_;
  std::vector<const Handle*> waits_;
  int holds_ = 0;
  std::atomic<bool> has_queued_{false};
  std::optional<Error> closed_;
};

}  // namespace hora
