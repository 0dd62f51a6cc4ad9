#include "simulation/executions.h"

#include <utility>

namespace hora::simulation {

void Executions::begin(std::uint64_t batch, std::size_t ranks, Events::Action ended) {
  std::vector<Events::Action>& begun = begun_[batch];
  begun.push_back(std::move(ended));
  if (begun.size() < ranks) return;
  const Time together = below(world_.random, world_.scenario.pace.batch);
  for (Events::Action& each : begun)
    world_.events.after(together + below(world_.random, 1 + world_.scenario.pace.batch / 4), std::move(each));
  begun_.erase(batch);
}

}  // namespace hora::simulation
