#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "base/clock.h"
#include "base/stall_times.h"
#include "core/batch.h"
#include "engine/exchange.h"
#include "engine/process_sets.h"

namespace hora {

/// What this rank is doing, for others that wait.
struct Doing {
  bool waits = false;            ///< calls of this rank have not been agreed
  std::uint64_t batches = 0;     ///< begun: one more than the number of the last
  const Batch* batch = nullptr;  ///< the one that it is at
  TimePoint begun;               ///< about
  std::optional<OnDevice> on_device;
};

/// While it lives, this rank is at a batch.
class AtBatch {
 public:
  AtBatch(Doing& doing, const Batch& batch) : doing_(doing) {
    doing_.batch = &batch;
    doing_.batches = batch.number + 1;
    doing_.begun = {};
  }
  ~AtBatch() { doing_.batch = nullptr; }
  AtBatch(const AtBatch&) = delete;
  AtBatch& operator=(const AtBatch&) = delete;

 private:
  Doing& doing_;
};

/// Finds out why nothing happens and says so: passes time to the negotiator, tells of batches that do not
/// end, answers what other ranks ask and, at the root, asks, and writes one notice in each interval.
class StallWatch {
 public:
  using MainThreadStack = std::function<std::string(Duration at_most)>;
  /// The rank through which another agrees with the others; none for rank 0.
  using ParentOf = std::function<std::optional<int>(int rank)>;
  StallWatch(const StallTimes& times, MainThreadStack stack, ParentOf parent_of, int rank, Exchange& exchange,
             const ProcessSets& process_sets);

  /// To be called every now and then while nothing happens. Throws Error(kSessionFailed), with the failure
  /// left in the exchange, when the time after which the job fails is over.
  void look(TimePoint now, const Doing& doing);
  /// How long nothing needs to be looked at, at most.
  [[nodiscard]] Duration pause(const Doing& doing) const;

 private:
  /// Root: what will be told when the ranks that were asked have answered, or it is too late.
  struct Notice {
    std::vector<StalledCall> calls;
    std::vector<LastingBatch> batches;
    bool is_over = false;
    std::size_t more_calls = 0;
    std::vector<int> asked;
    std::map<int, Answer> answers;
    TimePoint deadline;
    std::map<int, int> behind{};  ///< those that could not be asked, and the silent rank before each
  };

  void tell_of_batch(TimePoint now, const Doing& doing);
  void answer(const Question& question, const Doing& doing);
  void begin_notice(TimePoint now, Negotiator::Stalls& stalls);
  void end_notice();
  void tell_of_parent(int parent, std::uint64_t seconds);
  [[noreturn]] void fail(int rank, const std::string& reason);
  [[nodiscard]] bool is_over(std::uint64_t seconds) const;
  [[nodiscard]] bool is_early(std::uint64_t seconds) const;
  [[nodiscard]] std::vector<int> suspects(const Notice& notice) const;
  [[nodiscard]] std::string text_of(const Notice& notice) const;
  [[nodiscard]] static std::string text_of_rank(int rank, const Notice& notice);
  [[nodiscard]] std::map<int, int> find_behind(const Notice& notice) const;

  const StallTimes times_;
  const MainThreadStack stack_;  ///< may be empty
  const ParentOf parent_of_;
  const int rank_;
  Exchange& exchange_;
  const ProcessSets& process_sets_;
  TimePoint next_tick_;
  TimePoint next_batch_report_;
  TimePoint next_batch_notice_;
  std::uint32_t questions_ = 0;
  std::optional<Notice> notice_;
};

}  // namespace hora
