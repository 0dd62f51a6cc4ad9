#include "simulation/seeds.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora::simulation {

Verdict judge(std::uint32_t seed, const SimulationOptions& options) {
  const Scenario scenario = make_scenario(seed);
  Simulation simulation(scenario, options);
  const History& history = simulation.run();
  return {find_all(scenario, history), simulation.fault_happened(), scenario.to_string()};
}

std::string replay(std::uint32_t seed, Fault fault) {
  const std::string planted =
      fault == Fault::kNone ? "" : fmt::format(" --fault {}", kFaultNames[static_cast<std::size_t>(fault)]);
  return fmt::format("hora_simulation --seed {}{} --verbose", seed, planted);
}

std::string describe(std::uint32_t seed, const Verdict& verdict, Fault fault) {
  constexpr std::size_t kShown = 5;
  std::string text = fmt::format("seed {}: {}\n", seed, verdict.scenario);
  for (std::size_t finding = 0; finding < std::min(kShown, verdict.findings.size()); ++finding)
    text += fmt::format("  {}\n", verdict.findings[finding]);
  if (verdict.findings.size() > kShown)
    text += fmt::format("  and {} more\n", verdict.findings.size() - kShown);
  return text + fmt::format("replay: {}\n", replay(seed, fault));
}

}  // namespace hora::simulation
