#include <fmt/format.h>
#include <gtest/gtest.h>

#include "simulation/seeds.h"

namespace hora::simulation {
namespace {

constexpr std::uint32_t kPortions = 8;

/// One portion of the seeds, so that several can run at once.
class Seeds : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(Seeds, keep_every_invariant) {
  for (std::uint32_t seed = 1 + GetParam(); seed <= HORA_SIMULATION_SEEDS; seed += kPortions) {
    const Verdict verdict = judge(seed);
    ASSERT_TRUE(verdict.findings.empty()) << describe(seed, verdict);
  }
}

INSTANTIATE_TEST_SUITE_P(Portion, Seeds, ::testing::Range(std::uint32_t{0}, kPortions));

TEST(Simulation, give_the_same_job_every_time) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const Scenario scenario = make_scenario(seed);
    Simulation first(scenario, {});
    Simulation second(scenario, {});
    const History& history = first.run();
    const History& again = second.run();
    EXPECT_EQ(first.now(), second.now());
    ASSERT_EQ(history.submissions.size(), again.submissions.size());
    for (std::size_t each = 0; each < history.submissions.size(); ++each) {
      EXPECT_EQ(history.submissions[each].rank, again.submissions[each].rank);
      EXPECT_EQ(history.submissions[each].call, again.submissions[each].call);
      EXPECT_EQ(history.submissions[each].outcome, again.submissions[each].outcome);
    }
  }
}

/// Whatever is planted in the jobs of some seeds is found in at least one, and nothing is found in the same
/// jobs without it.
void expect_found(Fault fault) {
  constexpr std::uint32_t kSeeds = 100;
  int happened = 0;
  int found = 0;
  std::string first;
  for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
    const Verdict verdict = judge(seed, {.fault = fault});
    happened += verdict.fault_happened;
    if (verdict.findings.empty()) continue;
    ASSERT_TRUE(verdict.fault_happened) << describe(seed, verdict, fault);
    const Verdict without = judge(seed);
    ASSERT_TRUE(without.findings.empty()) << describe(seed, without);
    if (found++ == 0) first = describe(seed, verdict, fault);
  }
  EXPECT_GT(found, 0) << "in " << happened << " jobs";
  fmt::print("found in {} of {} jobs; first {}", found, happened, first);
}

TEST(PlantedFaults, a_lost_message_is_found) {
  expect_found(Fault::kLostMessage);
}

TEST(PlantedFaults, an_announcement_counted_twice_is_found) {
  expect_found(Fault::kDoubleCount);
}

TEST(PlantedFaults, two_batches_swapped_at_one_rank_are_found) {
  expect_found(Fault::kOrderSwap);
}

TEST(PlantedFaults, an_id_given_again_too_early_is_found) {
  expect_found(Fault::kReusedId);
}

TEST(PlantedFaults, a_plan_relayed_after_it_was_run_is_found) {
  expect_found(Fault::kLateRelay);
}

}  // namespace
}  // namespace hora::simulation
