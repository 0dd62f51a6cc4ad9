#include "simulation/rank.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace hora::simulation {

Rank::Rank(World& world, Network& network, Executions& executions, Tree tree)
    : world_(world),
      network_(network),
      executions_(executions),
      tree_(std::move(tree)),
      at_(static_cast<std::size_t>(tree_.rank())),
      negotiator_(tree_, world.scenario.options),
      set_ids_(world.scenario.sets.size(), 0) {}

std::size_t Rank::note(const Key& key, const SharedSignature& signature) {
  // Numbers of unnamed calls are not given again, but by a join in the global set.
  const int time = key.name.empty() ? 0 : times_[{key.process_set, key.name}]++;
  const int phase = key.process_set == kGlobalSet ? phase_ : 0;
  const std::size_t submission =
      world_.history.submit(tree_.rank(), world_.history.call(key, phase, time), signature);
  in_flight_.emplace(key, submission);
  parked_.emplace(key, submission);
  world_.tell(tree_.rank(),
              [&] { return fmt::format("submits {} {}", name(signature->op), key.to_string()); });
  return submission;
}

void Rank::submit(Request request) {
  if (request.key.name.empty()) request.key.number = ++unnamed_[request.key.process_set];
  const std::size_t submission = note(request.key, request.signature);
  if (removed_sets_.contains(request.key.process_set)) {
    settle({submission}, Submission::Outcome::kFailed);
  } else {
    negotiator_.on_submit(request);
  }
}

void Rank::submit_join() {
  Signature signature;
  signature.op = OpKind::kJoin;
  note(Key::join(), std::move(signature));
  negotiator_.on_join();
}

void Rank::wait_for(const Key& key) {
  const std::size_t submission = in_flight_.at(key);
  if (world_.history.submissions[submission].signature->device == DeviceKind::kHost) return;
  if (std::exchange(waited_for_, submission) == submission) return;
  negotiator_.on_wait(key);
  collect();
}

void Rank::leave() {
  world_.tell(tree_.rank(), [] { return "leaves"; });
  world_.history.ended_at = world_.events.now();
  negotiator_.on_leave("it was shut down");
  collect();
}

void Rank::fail(const std::string& reason) {
  world_.history.ended_at = world_.events.now();
  negotiator_.on_failure({tree_.rank(), reason});
  collect();
}

void Rank::die() {
  world_.tell(tree_.rank(), [] { return "crashes"; });
  world_.history.ended_at = world_.events.now();
  record().is_dead = true;
  network_.lose_some_from(tree_.rank());
}

void Rank::receive(int from, const Bytes& message, Saboteur::Naming sent) {
  if (record().is_dead) return;
  negotiator_.on_message(from, world_.saboteur.misread(message, sent, negotiator_.cache()));
  collect();
}

void Rank::miss(int neighbour) {
  if (record().is_dead) return;
  world_.tell(tree_.rank(), [&] { return fmt::format("finds rank {} dead", neighbour); });
  negotiator_.on_failure({neighbour, "it does not answer"});
  collect();
}

void Rank::tick(TimePoint now) {
  if (is_over()) return;
  negotiator_.on_tick(now, !in_flight_.empty());
  collect();
}

void Rank::collect() {
  Negotiator::Outputs outputs = negotiator_.take_outputs();
  if (!outputs.stalls.calls.empty()) world_.history.told.clear();
  for (const StalledCall& call : outputs.stalls.calls)
    world_.history.told.emplace(call.key, call.missing.to_vector());
  for (Negotiator::Outgoing& outgoing : outputs.messages) relay(outgoing.peer, std::move(outgoing.message));
  for (Plan& plan : outputs.plans) take_plan(std::move(plan));
  if (outputs.failure && !record().failure) {
    world_.tell(tree_.rank(), [&] { return fmt::format("fails: {}", outputs.failure->reason); });
    record().failure = std::move(outputs.failure);
    record().failed_at = world_.events.now();
    end();
  }
  record().heard_goodbyes = negotiator_.all_have_departed();
  turn();
}

void Rank::relay(int to, Bytes message) {
  if (world_.saboteur.relays_late(tree_.rank()) && kind_of(message) == MessageKind::kPlan) {
    held_.emplace_back(to, std::move(message));
    world_.saboteur.note_done();
    return;
  }
  network_.send(tree_.rank(), to, std::move(message), {negotiator_.cache().last_id()});
}

void Rank::take_plan(Plan plan) {
  std::ranges::move(plan.batches, std::back_inserter(agreed_));
  if (plan.departure && !record().departure) record().departure = std::move(plan.departure);
}

/// Goes on with what there is to do.
void Rank::turn() {
  while (!is_over() && !running_ && !agreed_.empty()) {
    if (agreed_.size() > 1 && world_.saboteur.swaps(tree_.rank())) std::swap(agreed_[0], agreed_[1]);
    Batch batch = std::move(agreed_.front());
    agreed_.pop_front();
    start(std::move(batch));
  }
  if (is_over() || running_) return;
  relay_what_was_held();
  if (record().departure) return depart();
  if (tree_.is_root()) plan_soon();
}

void Rank::plan_soon() {
  if (is_planning_ || !negotiator_.can_cut(on_device_.size())) return;
  is_planning_ = true;
  world_.events.after(below(world_.random, 1 + world_.scenario.pace.jitter / 8), [this] {
    is_planning_ = false;
    if (is_over() || !is_free() || !negotiator_.can_cut(on_device_.size())) return;
    negotiator_.cut(on_device_.size());
    collect();
  });
}

void Rank::start(Batch batch) {
  std::vector<Run>& runs = record().runs;
  world_.tell(tree_.rank(), [&] {
    return fmt::format("runs batch {}: {}", batch.number, join(testing::describe_batches({batch}), ""));
  });
  std::vector<Part> parts = take_parts(batch);
  runs.push_back({std::move(batch), std::move(parts)});
  const std::size_t run = runs.size() - 1;
  const Batch& begun = runs[run].batch;
  if (!begun.error.empty()) return finish(run);
  if (begun.signature().op == OpKind::kAddProcessSet)
    world_.history.sets.emplace(static_cast<std::int32_t>(begun.value), begun.signature().ranks);
  if (begun.signature().device != DeviceKind::kHost) return launch(run);
  running_ = run;
  executions_.begin(begun.number, world_.history.sets[begun.process_set()].size(), [this, run] {
    if (is_over()) return;
    running_.reset();
    finish(run);
    turn();
  });
}

std::vector<Part> Rank::take_parts(const Batch& batch) {
  const bool has_joined = batch.process_set() == kGlobalSet && parked_.contains(Key::join());
  std::vector<Part> parts;
  for (const BatchEntry& entry : batch.entries) {
    if (const auto found = parked_.find(entry.key); found != parked_.end()) {
      parts.push_back({found->second});
      parked_.erase(found);
    } else {
      parts.push_back({has_joined ? Part::kAbsent : Part::kNotSubmitted});
    }
  }
  return parts;
}

/// For the program a batch on a device is over now.
void Rank::launch(std::size_t run) {
  on_device_.push_back(run);
  record().unfinished_on_device = on_device_.size();
  finish(run);
  if (on_device_.size() == 1) run_on_device();
}

void Rank::run_on_device() {
  const Batch& batch = record().runs[on_device_.front()].batch;
  executions_.begin(batch.number, world_.history.sets[batch.process_set()].size(), [this] {
    if (record().is_dead || record().failure) return;
    on_device_.pop_front();
    record().unfinished_on_device = on_device_.size();
    if (!on_device_.empty()) run_on_device();
    turn();
  });
}

void Rank::finish(std::size_t run) {
  Run& over = record().runs[run];
  over.is_over = true;
  const bool is_error = !over.batch.error.empty();
  if (!is_error) apply_set_change(over.batch);
  // Looked up again, because the program may go on at once.
  const std::vector<Part> parts = over.parts;
  for (const Part& part : parts)
    settle(part, is_error ? Submission::Outcome::kFailed : Submission::Outcome::kDone);
}

void Rank::apply_set_change(const Batch& batch) {
  const auto set = static_cast<std::int32_t>(batch.value);
  switch (batch.signature().op) {
    case OpKind::kJoin:
      ++phase_;
      unnamed_.erase(kGlobalSet);
      std::erase_if(times_, [](const auto& each) { return each.first.first == kGlobalSet; });
      return;
    case OpKind::kAddProcessSet:
      set_ids_[static_cast<std::size_t>(std::ranges::find(world_.scenario.sets, batch.signature().ranks) -
                                        world_.scenario.sets.begin())] = set;
      return;
    case OpKind::kRemoveProcessSet:
      removed_sets_.insert(set);
      for (const auto& [key, submission] : std::unordered_map(parked_)) {
        if (key.process_set == set) settle({submission}, Submission::Outcome::kFailed);
      }
      return;
    default:
      return;
  }
}

void Rank::settle(const Part& part, Submission::Outcome outcome) {
  if (part.submission >= Part::kNotSubmitted) return;
  Submission& submission = world_.history.submissions[part.submission];
  submission.outcome = outcome;
  const Key& key = world_.history.calls[submission.call].key;
  in_flight_.erase(key);
  if (const auto parked = parked_.find(key); parked != parked_.end() && parked->second == part.submission)
    parked_.erase(parked);
  if (on_progress) world_.events.after(0, [this] { on_progress(); });
}

void Rank::relay_what_was_held() {
  for (auto& [to, message] : std::exchange(held_, {}))
    network_.send(tree_.rank(), to, std::move(message), {negotiator_.cache().last_id()});
}

void Rank::depart() {
  end();
  negotiator_.say_goodbye();
  for (Negotiator::Outgoing& outgoing : negotiator_.take_outputs().messages)
    relay(outgoing.peer, std::move(outgoing.message));
  record().heard_goodbyes = negotiator_.all_have_departed();
}

/// Whatever still waits fails.
void Rank::end() {
  if (ended_) return;
  ended_ = true;
  agreed_.clear();
  for (const auto& [key, submission] : std::exchange(in_flight_, {}))
    world_.history.submissions[submission].outcome = Submission::Outcome::kFailed;
}

}  // namespace hora::simulation
