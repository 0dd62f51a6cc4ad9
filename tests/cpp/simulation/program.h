#pragma once

#include <deque>
#include <optional>

#include "simulation/rank.h"

namespace hora::simulation {

/// Runs the scenario's program on one rank, as a training script would: it calls, now and then waits for what
/// it called, and joins at the end of a phase.
class Program {
 public:
  Program(World& world, Rank& rank);

  void begin() { soon(); }
  [[nodiscard]] bool finished() const { return phase_ == world_.scenario.phases.size(); }

 private:
  [[nodiscard]] const Phase& phase() const { return world_.scenario.phases[phase_]; }
  [[nodiscard]] bool is_past_steps() const {
    return step_ == static_cast<std::size_t>(phase().steps_of[static_cast<std::size_t>(rank_.tree().rank())]);
  }
  [[nodiscard]] bool is_mine(const Call& call) const;
  [[nodiscard]] Key key_of(const Call& call) const;
  void begin_step();
  void soon();
  void go_on();
  void call_some();
  /// Says whether the program has to wait, and for what.
  [[nodiscard]] bool waits();
  void end_step();

  World& world_;
  Rank& rank_;
  std::size_t phase_ = 0;
  std::size_t step_ = 0;
  std::deque<const Call*> calls_;  // left of this step
  bool is_thinking_ = false;
  bool has_joined_ = false;
};

}  // namespace hora::simulation
