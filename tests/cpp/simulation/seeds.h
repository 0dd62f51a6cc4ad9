#pragma once

#include <cstdint>
#include <string>

#include "simulation/invariants.h"
#include "simulation/simulation.h"

namespace hora::simulation {

/// What came of one seed.
struct Verdict {
  Findings findings;
  bool fault_happened = false;
  std::string scenario;
};

[[nodiscard]] Verdict judge(std::uint32_t seed, const SimulationOptions& options = {});

/// The command that runs a seed again.
[[nodiscard]] std::string replay(std::uint32_t seed, Fault fault = Fault::kNone);

/// What a person reads about a seed that failed.
[[nodiscard]] std::string describe(std::uint32_t seed, const Verdict& verdict, Fault fault = Fault::kNone);

}  // namespace hora::simulation
