// The seeds are worth running: everything that can happen happens in some of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "simulation/simulation.h"

namespace hora::simulation {
namespace {

using Counts = std::map<std::string, int>;

void count_batches(const History& history, Counts& counts) {
  for (const RankRecord& rank : history.ranks) {
    for (const Run& run : rank.runs) {
      const Batch& batch = run.batch;
      const bool is_error = !batch.error.empty();
      const auto set_size = static_cast<int>(history.sets.at(batch.process_set()).size());
      counts["batches"] += 1;
      counts["of several calls"] += batch.entries.size() > 1;
      counts["of a group"] += batch.signature().tensors.size() > 1;
      counts["in a set"] += batch.process_set() != kGlobalSet;
      counts["on a device"] += batch.signature().device != DeviceKind::kHost;
      counts["errors"] += is_error;
      counts["by fewer contributors"] += !is_error && batch.contributors > 0 && batch.contributors < set_size;
      counts["joins"] += batch.signature().op == OpKind::kJoin;
      counts["sets removed"] += batch.signature().op == OpKind::kRemoveProcessSet;
    }
  }
}

void count_endings(const Scenario& scenario, const History& history, Counts& counts) {
  const auto has = [&](auto what) { return std::ranges::any_of(history.ranks, what); };
  const bool fails = has([](const RankRecord& rank) { return rank.failure.has_value(); });
  counts["jobs that end in order"] += !fails && history.ended_at.has_value();
  counts["jobs that a crash ends"] += has(&RankRecord::is_dead) && fails;
  counts["jobs that a failure ends"] += scenario.ending == Ending::kFail && fails;
  counts["jobs that a leaver ends early"] +=
      scenario.ending == Ending::kLeave &&
      std::ranges::any_of(history.submissions, [](const Submission& submission) {
        return submission.outcome == Submission::Outcome::kFailed && submission.signature->refusal.empty();
      });
}

void count_calls(const History& history, Counts& counts) {
  for (const CallRecord& call : history.calls) {
    const auto has = [&](Submission::Outcome outcome) {
      return std::ranges::any_of(
          call.submissions, [&](std::size_t each) { return history.submissions[each].outcome == outcome; });
    };
    counts["calls that stall"] += call.key.name == "withheld" && has(Submission::Outcome::kWaiting);
    counts["calls that a removal fails"] += call.key.name == "orphan" && has(Submission::Outcome::kFailed);
    counts["names called again"] += call.time > 3;
  }
}

TEST(Coverage, everything_happens_in_some_seeds) {
  constexpr std::uint32_t kSeeds = 300;
  constexpr int kOften = 10;
  Counts counts;
  for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
    const Scenario scenario = make_scenario(seed);
    Simulation simulation(scenario, {});
    const History& history = simulation.run();
    count_batches(history, counts);
    count_endings(scenario, history, counts);
    count_calls(history, counts);
  }
  for (const auto& [what, count] : counts) {
    EXPECT_GE(count, kOften) << what;
    RecordProperty(what, count);
    fmt::print("{:8} {}\n", count, what);
  }
}

}  // namespace
}  // namespace hora::simulation
