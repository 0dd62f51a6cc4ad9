#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "simulation/events.h"
#include "support/virtual_job.h"

namespace hora::simulation {

inline constexpr int kAllRanks = -1;

/// One call of the program that all ranks run, and which ranks do otherwise.
struct Call {
  std::string name;  ///< empty: unnamed
  SharedSignature signature;
  int set = kAllRanks;                         ///< among the members of which of the scenario's sets
  std::map<int, SharedSignature> otherwise{};  ///< by rank: it sends this instead
  std::vector<int> left_out_by{};              ///< ranks that never make it; ascending
};

/// Each rank makes the calls of a step in an order of its own, but unnamed calls as they stand.
struct Step {
  std::vector<Call> calls;
  bool ends_with_wait = true;  ///< for everything that was called so far
};

/// Each rank runs the first `steps_of[rank]` steps; where that is not all of them for all ranks, they join.
struct Phase {
  std::vector<Step> steps;
  bool ends_with_join = false;
  std::vector<int> steps_of;
};

/// What happens to the job: after so many events, unless the program is through before.
enum class Ending { kNone, kStall, kLeave, kFail, kCrash };

/// How long messages and batches take.
struct Pace {
  Time inside = 0;    ///< a message inside a host, at least
  Time between = 0;   ///< a message between hosts, at least
  Time jitter = 0;    ///< added to both, at most
  int spikes_of = 0;  ///< one message of so many takes kSpike longer; 0: none
  Time batch = 0;     ///< a batch, at most
  Time think = 0;     ///< between two calls of a rank, at most
  static constexpr Time kSpike = 5 * kMillisecond;

  [[nodiscard]] Time longest_message() const { return inside + between + jitter + kSpike; }
};

/// All that a seed decides on before anything happens.
struct Scenario {
  std::uint32_t seed = 0;
  testing::JobShape shape;
  NegotiatorOptions options;
  Pace pace;
  std::vector<std::vector<int>> sets;
  std::vector<Phase> phases;
  Ending ending = Ending::kNone;
  std::vector<int> enders;      ///< ranks that leave, fail or crash
  std::uint64_t ending_at = 0;  ///< number of the event

  [[nodiscard]] int size() const { return shape.size(); }
  [[nodiscard]] std::string to_string() const;
};

/// Mostly of 2 to 64 ranks; a few seeds have `kManyRanks`.
[[nodiscard]] Scenario make_scenario(std::uint32_t seed);
inline constexpr int kManyRanks = 4096;

/// A number from 0 to limit-1.
[[nodiscard]] inline int below(std::mt19937& random, int limit) {
  return static_cast<int>(random() % static_cast<unsigned>(limit));
}
[[nodiscard]] inline Time below(std::mt19937& random, Time limit) {
  return limit == 0 ? 0 : static_cast<Time>(random() % static_cast<std::uint64_t>(limit));
}

}  // namespace hora::simulation
