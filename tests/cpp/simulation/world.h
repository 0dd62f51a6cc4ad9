#pragma once

#include <fmt/format.h>

#include <random>

#include "simulation/events.h"
#include "simulation/fault.h"
#include "simulation/history.h"
#include "simulation/scenario.h"

namespace hora::simulation {

/// What the ranks of a simulated job share.
struct World {
  const Scenario& scenario;
  std::mt19937 random;
  Saboteur saboteur;
  History history{};
  Events events{};
  bool is_verbose = false;

  /// Prints one line if asked to; `text` makes it.
  template <typename Text>
  void tell(int rank, Text text) const;
};

template <typename Text>
void World::tell(int rank, Text text) const {
  if (is_verbose)
    fmt::print("{:12.3f} us  rank {:3}  {}\n", static_cast<double>(events.now()) / 1e3, rank, text());
}

}  // namespace hora::simulation
