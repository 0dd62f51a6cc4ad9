#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <exception>
#include <random>

#include "support/virtual_job.h"

namespace hora::testing {

/// Runs `check` for many random jobs and names the seed of the first that fails.
template <typename Check>
void for_seeds(unsigned count, int most_ranks, Check check) {
  for (unsigned seed = 1; seed <= count; ++seed) {
    std::mt19937 random(seed);
    const JobShape shape = random_shape(random, most_ranks);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, shape.to_string()));
    try {
      check(random, shape);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (::testing::Test::HasFailure()) return;
  }
}

/// Thresholds that fuse nothing, a few and everything, and capacities that run out or do not.
inline NegotiatorOptions random_options(std::mt19937& random) {
  constexpr std::uint64_t kThresholds[] = {0, 30, 1u << 20};
  constexpr std::uint64_t kCapacities[] = {0, 1, 2, 5, 1000};
  return negotiator_options(kThresholds[random() % 3], kCapacities[random() % 5]);
}

}  // namespace hora::testing
