#include "simulation/program.h"

#include <algorithm>
#include <utility>

namespace hora::simulation {

Program::Program(World& world, Rank& rank) : world_(world), rank_(rank) {
  rank_.on_progress = [this] {
    if (!is_thinking_) go_on();
  };
  begin_step();
}

bool Program::is_mine(const Call& call) const {
  const int rank = rank_.tree().rank();
  const bool is_member =
      call.set == kAllRanks ||
      std::ranges::binary_search(world_.scenario.sets[static_cast<std::size_t>(call.set)], rank);
  return is_member && !std::ranges::binary_search(call.left_out_by, rank);
}

/// Unnamed calls are numbered when they are made.
Key Program::key_of(const Call& call) const {
  return {call.name, 0, call.set == kAllRanks ? kGlobalSet : rank_.set_id(call.set)};
}

/// Shuffles the calls; the unnamed ones keep their order.
void Program::begin_step() {
  calls_.clear();
  if (finished() || is_past_steps()) return;
  std::deque<const Call*> unnamed;
  for (const Call& call : phase().steps[step_].calls) {
    if (!is_mine(call)) continue;
    calls_.push_back(&call);
    if (call.name.empty()) unnamed.push_back(&call);
  }
  for (std::size_t left = calls_.size(); left > 1; --left)
    std::swap(calls_[left - 1], calls_[world_.random() % left]);
  for (const Call*& call : calls_) {
    if (!call->name.empty()) continue;
    call = unnamed.front();
    unnamed.pop_front();
  }
}

void Program::soon() {
  is_thinking_ = true;
  world_.events.after(below(world_.random, world_.scenario.pace.think), [this] {
    is_thinking_ = false;
    go_on();
  });
}

void Program::go_on() {
  if (finished() || rank_.is_over() || waits()) return;
  if (!calls_.empty()) {
    call_some();
  } else if (!is_past_steps()) {
    end_step();
  } else if (phase().ends_with_join && !has_joined_) {
    has_joined_ = true;
    rank_.submit_join();
    rank_.send();
    return;
  } else {
    ++phase_;
    step_ = 0;
    has_joined_ = false;
    begin_step();
  }
  if (!is_thinking_) soon();
}

/// One call, or several that are announced together.
void Program::call_some() {
  for (int calls = 1 + below(world_.random, 4); calls > 0 && !calls_.empty(); --calls) {
    const Call& call = *calls_.front();
    const Key key = key_of(call);
    if (!key.name.empty() && rank_.is_in_flight(key)) break;
    calls_.pop_front();
    const auto other = call.otherwise.find(rank_.tree().rank());
    const SharedSignature& signature = other == call.otherwise.end() ? call.signature : other->second;
    rank_.submit({key, *signature, 0});
  }
  rank_.send();
}

bool Program::waits() {
  if (has_joined_) return rank_.is_in_flight(Key::join());
  if (!calls_.empty()) {
    const Key key = key_of(*calls_.front());
    if (key.name.empty() || !rank_.is_in_flight(key)) return false;
    rank_.wait_for(key);
    return rank_.is_in_flight(key);
  }
  const bool must_wait = is_past_steps() ? !phase().ends_with_join : phase().steps[step_].ends_with_wait;
  if (!must_wait || rank_.in_flight().empty()) return false;
  rank_.wait_for(rank_.in_flight().begin()->first);
  return !rank_.in_flight().empty();
}

void Program::end_step() {
  ++step_;
  begin_step();
}

}  // namespace hora::simulation
