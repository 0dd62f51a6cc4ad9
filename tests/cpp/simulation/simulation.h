#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simulation/program.h"

namespace hora::simulation {

/// Takes so long at most until a rank's neighbours in the tree learn that it is dead.
inline constexpr Time kDetection = 10 * kMillisecond;

struct SimulationOptions {
  Fault fault = Fault::kNone;
  bool is_verbose = false;
};

/// A whole job in one thread with a simulated clock and network: the negotiators are real, engines and
/// programs are made up. Everything follows from the scenario's seed.
class Simulation {
 public:
  Simulation(const Scenario& scenario, const SimulationOptions& options);

  /// Runs until nothing moves any more.
  const History& run();
  /// Whether the fault that was asked for had an occasion.
  [[nodiscard]] bool fault_happened() const { return world_.saboteur.done(); }
  [[nodiscard]] Time now() const { return world_.events.now(); }

 private:
  void run_until_quiet();
  void stand_still();
  void end();
  void crash(Rank& rank);
  [[nodiscard]] bool somebody_waits() const;

  const Scenario& scenario_;
  const Topology topology_;
  World world_;
  Network network_;
  Executions executions_{world_};
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::unique_ptr<Program>> programs_;
};

}  // namespace hora::simulation
