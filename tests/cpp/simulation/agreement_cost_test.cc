#include <gtest/gtest.h>

#include "agreement/cost.h"

namespace hora::benchmarks {
namespace {

constexpr int kRanks[] = {2, 8, 16, 64, 128, 136, 512, 2048};

/// How often a number has to be divided by 16 to become 1, rounded up.
int log16_up(int number) {
  int steps = 0;
  for (int reach = 1; reach < number; reach *= 16) ++steps;
  return steps;
}

TEST(AgreementCost, chains_between_hosts_grow_with_the_logarithm_of_hosts) {
  const CostOptions options;
  for (const int ranks : kRanks) {
    const Cost steady = tree_cost(ranks, options).steady;
    EXPECT_LE(steady.steps_between, 2 * log16_up(options.hosts(ranks))) << ranks << " ranks";
    EXPECT_LE(steady.steps_inside, 2) << ranks << " ranks";
  }
}

TEST(AgreementCost, no_node_receives_more_than_its_arity_and_its_hosts_ranks_send) {
  const CostOptions options;
  for (const int ranks : kRanks) {
    const Costs costs = tree_cost(ranks, options);
    EXPECT_LE(costs.steady.fan_in, options.arity + options.ranks_per_host) << ranks << " ranks";
    EXPECT_LE(costs.cold.fan_in, options.arity + options.ranks_per_host) << ranks << " ranks";
  }
}

TEST(AgreementCost, a_wave_takes_one_message_up_and_one_down_on_each_edge) {
  const CostOptions options;
  for (const int ranks : kRanks) {
    const Cost steady = tree_cost(ranks, options).steady;
    const double per_rank = 2.0 * options.waves * (ranks - 1) / ranks;
    EXPECT_NEAR(steady.messages_inside + steady.messages_between, per_rank, 1e-9) << ranks << " ranks";
    EXPECT_NEAR(steady.messages_between, 2.0 * options.waves * (options.hosts(ranks) - 1) / ranks, 1e-9)
        << ranks << " ranks";
  }
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

TEST(AgreementCost, bytes_do_not_grow_with_the_number_of_ranks) {
  const CostOptions options;
  const double expected = bytes_per_edge(tree_cost(2, options).steady, 2) - bytes_of_numbers(2, options);
  for (const int ranks : kRanks) {
    const Cost steady = tree_cost(ranks, options).steady;
    const double per_edge = bytes_per_edge(steady, ranks);
    EXPECT_NEAR(per_edge - bytes_of_numbers(ranks, options), expected, 1e-6) << ranks << " ranks";
    EXPECT_LE(steady.most_bytes, per_edge * (options.arity + options.ranks_per_host) + 1e-6)
        << ranks << " ranks";
  }
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
