#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "simulation/world.h"

namespace hora::simulation {

/// Batches that are being run: like a collective, none ends anywhere before all its ranks have begun it.
class Executions {
 public:
  explicit Executions(World& world) : world_(world) {}

  /// One of `ranks` ranks begins a batch; `ended` is called when it is over there.
  void begin(std::uint64_t batch, std::size_t ranks, Events::Action ended);

 private:
  World& world_;
  std::unordered_map<std::uint64_t, std::vector<Events::Action>> begun_;
};

}  // namespace hora::simulation
