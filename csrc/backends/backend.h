#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/exception.h"
#include "base/faults.h"
#include "core/batch.h"
#include "core/submission.h"
#include "transport/group.h"

namespace hora {

/// A batch that a device is at, or will begin with next.
struct OnDevice {
  std::uint64_t number = 0;
  std::int32_t process_set = kGlobalSet;
  std::string what;                ///< "allreduce 'x'"
  std::optional<TimePoint> begun;  ///< when it was first seen to have; nothing before
};

/// Runs batches somewhere. Owns its staging memory; packs, runs and unpacks itself.
///
/// One whose device goes on working after `run` gives every call's handle its DeviceWork before. All
/// functions but `prepare` are called by the engine, one at a time, and for such a backend always from the
/// background thread.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Looks at a call of this rank, among so many members of its process set, that is about to be submitted;
  /// on its thread. Throws what is wrong with it.
  virtual void prepare(Submission&, int /*members*/) {}

  /// Whether it runs this batch: a function of agreed data only, so that all ranks pick the same backend.
  [[nodiscard]] virtual bool accepts(const Batch& batch) const = 0;

  /// Runs it on `calls`, which are in the order of the batch's entries. Throws when the session cannot go on.
  virtual void run(const Batch& batch, std::span<Submission> calls, const Group& group) = 0;

  /// How many of its batches are still under way after `run`; lets go of those that are not. Throws when one
  /// takes too long.
  virtual std::size_t unfinished(TimePoint) { return 0; }
  /// The first of those.
  [[nodiscard]] virtual std::optional<OnDevice> first_unfinished() const { return std::nullopt; }
  /// The process sets of batches that were found to be through since the last time, one for each batch.
  [[nodiscard]] virtual std::vector<std::int32_t> take_finished() { return {}; }
  /// Calls `ring`, from any thread, when the oldest of them is through.
  virtual void ring_at_next_end(std::function<void()>) {}
  /// A process set is gone. `meanwhile` runs while anything is waited for.
  virtual void forget(std::int32_t, const std::function<void()>& /*meanwhile*/) {}
  /// Waits for what is under way and gives everything back; all ranks do so.
  virtual void close(const std::function<void()>& /*meanwhile*/) {}
  /// The session is over: what is under way fails and is ended.
  virtual void fail(const Error&) noexcept {}
};

/// All backends of this build; the first that accepts a batch runs it.
[[nodiscard]] std::vector<std::unique_ptr<Backend>> make_backends(const Settings& settings, Faults& faults);

}  // namespace hora
