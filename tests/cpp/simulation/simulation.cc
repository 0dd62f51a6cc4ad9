#include "simulation/simulation.h"

#include <algorithm>
#include <exception>
#include <numeric>

namespace hora::simulation {
namespace {

constexpr std::uint64_t kFarTooManyEventsPerRank = 20'000;

std::vector<Tree> make_trees(const Scenario& scenario, const Topology& topology) {
  std::vector<Tree> trees;
  for (int rank = 0; rank < scenario.size(); ++rank) trees.emplace_back(topology, rank, scenario.shape.arity);
  return trees;
}

/// Parents have lower ranks than their children.
int deepest(const std::vector<Tree>& trees) {
  std::vector<int> depth(trees.size(), 0);
  for (const Tree& tree : trees) {
    if (tree.parent())
      depth[static_cast<std::size_t>(tree.rank())] = depth[static_cast<std::size_t>(*tree.parent())] + 1;
  }
  return std::ranges::max(depth);
}

}  // namespace

Simulation::Simulation(const Scenario& scenario, const SimulationOptions& options)
    : scenario_(scenario),
      topology_(Topology::split(0, scenario.size(), scenario.shape.ranks_per_host)),
      world_{.scenario = scenario,
             .random = std::mt19937(scenario.seed + 1),
             .saboteur = Saboteur(options.fault, scenario.seed, make_trees(scenario, topology_)),
             .is_verbose = options.is_verbose},
      network_(world_, topology_, [this](int from, int to, const Bytes& message, Saboteur::Naming sent) {
        ranks_[static_cast<std::size_t>(to)]->receive(from, message, sent);
      }) {
  std::vector<Tree> trees = make_trees(scenario, topology_);
  world_.history.ranks.resize(trees.size());
  world_.history.hops = 2 * deepest(trees);
  std::vector<int>& all = world_.history.sets[kGlobalSet];
  all.resize(trees.size());
  std::iota(all.begin(), all.end(), 0);
  for (Tree& tree : trees) {
    ranks_.push_back(std::make_unique<Rank>(world_, network_, executions_, std::move(tree)));
    programs_.push_back(std::make_unique<Program>(world_, *ranks_.back()));
  }
}

const History& Simulation::run() {
  try {
    for (const auto& program : programs_) program->begin();
    run_until_quiet();
    if (world_.history.ended_at) return world_.history;
    if (somebody_waits()) {
      stand_still();
    } else {
      ranks_[world_.random() % ranks_.size()]->leave();
      run_until_quiet();
    }
  } catch (const std::exception& error) {
    world_.history.broken = error.what();
  }
  return world_.history;
}

void Simulation::run_until_quiet() {
  const std::uint64_t most = kFarTooManyEventsPerRank * ranks_.size();
  while (world_.events.step()) {
    if (world_.events.happened() == scenario_.ending_at + 1) end();
    if (world_.events.happened() > most) {
      world_.history.broken = "things never stop happening";
      return;
    }
  }
}

void Simulation::end() {
  const bool is_sudden = scenario_.ending == Ending::kFail || scenario_.ending == Ending::kCrash;
  if (!is_sudden && scenario_.ending != Ending::kLeave) return;
  for (const int ender : scenario_.enders) {
    Rank& rank = *ranks_[static_cast<std::size_t>(ender)];
    world_.events.after(below(world_.random, 2 * kMillisecond), [this, &rank] {
      if (rank.is_over()) return;
      if (scenario_.ending == Ending::kLeave) return rank.leave();
      if (scenario_.ending == Ending::kFail) return rank.fail("out of memory");
      crash(rank);
    });
  }
}

/// The connections to a dead rank break one after the other.
void Simulation::crash(Rank& rank) {
  rank.die();
  std::vector<int> neighbours = rank.tree().children();
  if (rank.tree().parent()) neighbours.push_back(*rank.tree().parent());
  for (const int neighbour : neighbours) {
    world_.events.after(below(world_.random, kDetection), [this, neighbour, dead = rank.tree().rank()] {
      ranks_[static_cast<std::size_t>(neighbour)]->miss(dead);
    });
  }
}

/// Until the root has told of what waits once more after the news of all levels have come up.
void Simulation::stand_still() {
  const Duration tick = ranks_.front()->tick_length();
  const Duration warning = scenario_.options.stalls.warning;
  TimePoint now = TimePoint() + tick;
  for (const TimePoint until = now + 2 * warning + (world_.history.hops + 5) * tick; now < until;
       now += tick) {
    for (const auto& rank : ranks_) rank->tick(now);
    run_until_quiet();
  }
}

bool Simulation::somebody_waits() const {
  return std::ranges::any_of(world_.history.submissions, [](const Submission& submission) {
    return submission.outcome == Submission::Outcome::kWaiting;
  });
}

}  // namespace hora::simulation
