#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "simulation/executions.h"
#include "simulation/network.h"
#include "simulation/world.h"

namespace hora::simulation {

/// A rank's negotiator and an engine that runs what comes out of it, one batch after the other, as the real
/// engine does; batches on a device are launched and end there later, in the same order.
class Rank {
 public:
  Rank(World& world, Network& network, Executions& executions, Tree tree);

  /// Called when something that the program may wait for has happened.
  std::function<void()> on_progress;

  void submit(Request request);
  void submit_join();
  /// Announces what was submitted since the last time.
  void send() { collect(); }
  /// The program waits for this call.
  void wait_for(const Key& key);
  void leave();
  void fail(const std::string& reason);
  void die();

  void receive(int from, const Bytes& message, Saboteur::Naming sent);
  /// A neighbour in the tree is found dead.
  void miss(int neighbour);

  /// Time passes without anything else happening.
  void tick(TimePoint now);
  [[nodiscard]] Duration tick_length() const { return negotiator_.tick(); }
  [[nodiscard]] bool is_over() const { return ended_ || record().is_dead; }
  [[nodiscard]] bool is_in_flight(const Key& key) const { return in_flight_.contains(key); }
  [[nodiscard]] const std::unordered_map<Key, std::size_t>& in_flight() const { return in_flight_; }
  [[nodiscard]] int phase() const { return phase_; }
  /// The id of one of the scenario's sets, once it has come out; 0 before.
  [[nodiscard]] std::int32_t set_id(int set) const { return set_ids_[static_cast<std::size_t>(set)]; }
  [[nodiscard]] const Tree& tree() const { return tree_; }

 private:
  [[nodiscard]] const RankRecord& record() const { return world_.history.ranks[at_]; }
  [[nodiscard]] RankRecord& record() { return world_.history.ranks[at_]; }
  std::size_t note(const Key& key, const SharedSignature& signature);

  void collect();
  void relay(int to, Bytes message);
  void take_plan(Plan plan);
  void turn();
  void plan_soon();
  [[nodiscard]] bool is_free() const { return !running_ && agreed_.empty(); }
  void start(Batch batch);
  [[nodiscard]] std::vector<Part> take_parts(const Batch& batch);
  void launch(std::size_t run);
  void run_on_device();
  void finish(std::size_t run);
  void apply_set_change(const Batch& batch);
  void settle(const Part& part, Submission::Outcome outcome);
  void relay_what_was_held();
  void depart();
  void end();

  World& world_;
  Network& network_;
  Executions& executions_;
  const Tree tree_;
  const std::size_t at_;
  Negotiator negotiator_;
  std::unordered_map<Key, std::size_t> in_flight_;             // submissions that are not settled
  std::unordered_map<Key, std::size_t> parked_;                // those that no batch has taken
  std::map<std::int32_t, std::uint64_t> unnamed_;              // calls so far, by set
  std::map<std::pair<std::int32_t, std::string>, int> times_;  // named calls so far, by set
  std::unordered_set<std::int32_t> removed_sets_;
  std::vector<std::int32_t> set_ids_;  // of the scenario's
  std::deque<Batch> agreed_;
  std::deque<std::size_t> on_device_;       // runs
  std::deque<std::pair<int, Bytes>> held_;  // plans, for a late relay
  std::optional<std::size_t> running_;
  std::optional<std::size_t> waited_for_;  // the submission that the program was last said to wait for
  bool is_planning_ = false;               // root only: it will in a moment
  bool ended_ = false;
  int phase_ = 0;
};

}  // namespace hora::simulation
