#include <gtest/gtest.h>

#include <vector>

#include "agreement/cost.h"

namespace hora::benchmarks {
namespace {

/// How often a number has to be divided by 16 to become 1, rounded up.
int log16_up(int number) {
  int steps = 0;
  for (int reach = 1; reach < number; reach *= 16) ++steps;
  return steps;
}

/// Bytes on each edge of the tree in a step, both ways together.
double bytes_per_edge(const Cost& cost, int ranks) {
  return (cost.bytes_inside + cost.bytes_between) * ranks / (ranks - 1);
}

/// A plan says how many ranks contribute and what to divide by: numbers that take a byte for each seven bits.
double bytes_of_numbers(int ranks, const CostOptions& options) {
  int bytes = 1;
  for (int left = ranks >> 7; left > 0; left >>= 7) ++bytes;
  return 2.0 * options.waves * bytes;
}

/// Hosts of eight ranks, as many as there are ranks for.
class AgreementCostOf : public ::testing::TestWithParam<int> {
 protected:
  const CostOptions options_{};
  const int ranks_ = GetParam();
  const Costs costs_ = tree_cost(ranks_, options_);
  const Cost& steady_ = costs_.steady;

  /// Chains between hosts grow with the logarithm of hosts.
  void expect_short_chains() const {
    EXPECT_LE(steady_.steps_between, 2 * log16_up(options_.hosts(ranks_)));
    EXPECT_LE(steady_.steps_inside, 2);
  }

  /// No node receives more than its arity and its host's ranks send.
  void expect_little_to_receive() const {
    EXPECT_LE(steady_.fan_in, options_.arity + options_.ranks_per_host);
    EXPECT_LE(costs_.cold.fan_in, options_.arity + options_.ranks_per_host);
  }

  /// A wave takes one message up and one down on each edge.
  void expect_few_messages() const {
    EXPECT_NEAR(steady_.messages_inside + steady_.messages_between,
                2.0 * options_.waves * (ranks_ - 1) / ranks_, 1e-9);
    EXPECT_NEAR(steady_.messages_between, 2.0 * options_.waves * (options_.hosts(ranks_) - 1) / ranks_, 1e-9);
  }

  void expect_bytes_of_two_ranks() const {
    const double expected = bytes_per_edge(tree_cost(2, options_).steady, 2) - bytes_of_numbers(2, options_);
    const double per_edge = bytes_per_edge(steady_, ranks_);
    EXPECT_NEAR(per_edge - bytes_of_numbers(ranks_, options_), expected, 1e-6);
    EXPECT_LE(steady_.most_bytes, per_edge * (options_.arity + options_.ranks_per_host) + 1e-6);
  }
};

/// Powers of two up to the most that the build has time for, and a job that is none.
std::vector<int> numbers_of_ranks() {
  std::vector<int> numbers{136};
  for (int ranks = 2; ranks <= HORA_SIMULATION_RANKS; ranks *= 2) numbers.push_back(ranks);
  return numbers;
}

INSTANTIATE_TEST_SUITE_P(Ranks, AgreementCostOf, ::testing::ValuesIn(numbers_of_ranks()),
                         ::testing::PrintToStringParamName());

TEST_P(AgreementCostOf, a_steady_step_does_not_grow_with_the_number_of_ranks) {
  expect_short_chains();
  expect_little_to_receive();
  expect_few_messages();
  expect_bytes_of_two_ranks();
}

TEST(AgreementCost, ids_cost_a_fraction_of_names) {
  const Costs costs = tree_cost(64, {});
  EXPECT_LT(costs.steady.bytes_inside * 5, costs.cold.bytes_inside);
}

TEST(AgreementCost, a_flat_coordinator_hears_all_ranks) {
  EXPECT_EQ(flat_cost(1024, {}).cold.fan_in, 2 * 1023 + 10);
  EXPECT_EQ(flat_cost(1024, {}).steady.steps_inside + flat_cost(1024, {}).steady.steps_between, 10);
}

}  // namespace
}  // namespace hora::benchmarks
