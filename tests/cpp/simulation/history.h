#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "simulation/events.h"
#include "simulation/scenario.h"

namespace hora::simulation {

/// A call that one rank made.
struct Submission {
  enum class Outcome { kWaiting, kDone, kFailed };
  int rank;
  std::size_t call;  ///< in History::calls
  SharedSignature signature;
  Outcome outcome = Outcome::kWaiting;
};

/// Calls of several ranks that belong together: of one key, and each rank's call of that key for the same
/// time; in the global set, since the last join.
struct CallRecord {
  Key key;
  int phase;
  int time;  ///< from 0
  std::vector<std::size_t> submissions{};

  [[nodiscard]] std::string to_string() const;
};

/// What a rank had for one entry of a batch that it ran.
struct Part {
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);        ///< nothing: it had joined
  static constexpr std::size_t kNotSubmitted = static_cast<std::size_t>(-2);  ///< nothing, without a reason
  std::size_t submission;
};

struct Run {
  Batch batch;
  std::vector<Part> parts;
  bool is_over = false;  ///< for a batch on a device: launched
};

struct RankRecord {
  std::vector<Run> runs{};  ///< in the order in which they began
  std::optional<Failure> failure{};
  Time failed_at = 0;
  std::optional<Departure> departure{};
  bool is_dead = false;
  bool heard_goodbyes = false;
  std::size_t unfinished_on_device = 0;
};

/// All that happened in a simulated job, for judging it.
struct History {
  std::vector<RankRecord> ranks;
  std::vector<Submission> submissions;
  std::vector<CallRecord> calls;
  std::map<std::int32_t, std::vector<int>> sets;   ///< those that were added; the global one too
  std::optional<Time> ended_at;                    ///< when the last rank left, failed or crashed
  std::unordered_map<Key, std::vector<int>> told;  ///< by the root at last: calls that wait for these ranks
  int hops = 0;                                    ///< between any two ranks, at most
  std::string broken;  ///< not empty: a negotiator threw, or nothing came to an end

  /// The record of a call, made when it is the first of its kind.
  std::size_t call(const Key& key, int phase, int time);
  std::size_t submit(int rank, std::size_t call, const SharedSignature& signature);

  [[nodiscard]] bool is_member(int rank, std::int32_t set) const;
  [[nodiscard]] bool has_joined(int rank, int phase) const;
  /// Whose call is missing: members that neither made it nor have joined.
  [[nodiscard]] std::vector<int> missing(const CallRecord& call) const;

 private:
  std::map<std::tuple<std::int32_t, std::string, std::uint64_t, int, int>, std::size_t> numbers_;
};

}  // namespace hora::simulation
