// Random jobs whose ranks run out of data at different places, join and begin anew, while they also talk in
// process sets that come and go. Any tree, any order of calls, any interleaving of messages.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <variant>

#include "support/seeds.h"
#include "support/virtual_job.h"

namespace hora::testing {
namespace {

constexpr int kPhases = 3;  // each ends with a join
constexpr int kTensors = 4;
constexpr int kRounds = 2;    // of each tensor and phase
constexpr int kSetCalls = 4;  // unnamed ones of each set and phase, and as many named ones
constexpr int kFarTooMany = 1'000'000;

int below(std::mt19937& random, int limit) {
  return static_cast<int>(random() % static_cast<unsigned>(limit));
}

std::size_t at(int number) {
  return static_cast<std::size_t>(number);
}

/// A process set. One that lasts is added in the first phase and used in all; a short-lived one is removed
/// in the phase in which it was added, while some members have made more calls than others.
struct SetPlan {
  std::vector<int> ranks;
  bool lasts;
  int phase;

  [[nodiscard]] bool contains(int rank) const { return std::ranges::binary_search(ranks, rank); }
  [[nodiscard]] bool is_used_in(int some_phase) const { return lasts || phase == some_phase; }
};

/// The next unnamed call of the global set.
struct Step {
  enum Kind { kCall, kAdd, kRemove } kind;
  int set = 0;  ///< to add or to remove
};

/// What the ranks will do. Each calls a beginning of what there is and then joins.
struct Program {
  int size;
  std::vector<SetPlan> sets;
  std::vector<std::vector<Step>> steps;  ///< by phase
  std::vector<Signature> tensors;        ///< of the global set, named t0, t1, ..

  // How many of them each rank calls: by phase and rank.
  std::vector<std::vector<int>> step_calls;
  std::vector<std::vector<std::vector<int>>> rounds;  ///< further by tensor
  std::vector<std::vector<int>> set_calls;            ///< by set and rank

  [[nodiscard]] std::vector<int> callers_of_step(int phase, int step) const {
    return callers([&](int rank) { return step_calls[at(phase)][at(rank)] > step; });
  }
  [[nodiscard]] std::vector<int> callers_of_round(int phase, int tensor, int round) const {
    return callers([&](int rank) { return rounds[at(phase)][at(rank)][at(tensor)] > round; });
  }
  /// How many calls of a set all of its members make in a phase.
  [[nodiscard]] int common_set_calls(int set) const {
    int least = kSetCalls;
    for (const int rank : sets[at(set)].ranks) least = std::min(least, set_calls[at(set)][at(rank)]);
    return least;
  }

 private:
  template <typename Calls>
  [[nodiscard]] std::vector<int> callers(Calls calls) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size; ++rank) {
      if (calls(rank)) ranks.push_back(rank);
    }
    return ranks;
  }
};

/// Sets of different ranks, so that it is clear which one a removal means.
std::vector<SetPlan> random_sets(std::mt19937& random, int size) {
  std::vector<SetPlan> sets;
  for (int attempt = 0; attempt < 6; ++attempt) {
    std::vector<int> ranks;
    const int density = 1 + below(random, 4);
    for (int rank = 0; rank < size; ++rank) {
      if (below(random, 4) < density) ranks.push_back(rank);
    }
    const bool is_new = std::ranges::none_of(sets, [&](const SetPlan& set) { return set.ranks == ranks; });
    if (ranks.empty() || !is_new) continue;
    const bool lasts = below(random, 2) == 0;
    sets.push_back({ranks, lasts, lasts ? 0 : below(random, kPhases)});
  }
  return sets;
}

/// Calls and, in any places, the set changes of the phase.
std::vector<Step> random_steps(std::mt19937& random, const std::vector<SetPlan>& sets, int phase) {
  std::vector<Step> steps(5, Step{Step::kCall});
  for (int set = 0; set < static_cast<int>(sets.size()); ++set) {
    if (sets[at(set)].phase != phase) continue;
    const int add = below(random, static_cast<int>(steps.size()) + 1);
    steps.insert(steps.begin() + add, Step{Step::kAdd, set});
    if (sets[at(set)].lasts) continue;
    const int remove = add + 1 + below(random, static_cast<int>(steps.size()) - add);
    steps.insert(steps.begin() + remove, Step{Step::kRemove, set});
  }
  return steps;
}

std::vector<Signature> random_tensors(std::mt19937& random, int size) {
  std::vector<Signature> tensors;
  for (int tensor = 0; tensor < kTensors; ++tensor) {
    constexpr OpKind kOps[] = {OpKind::kAllreduce, OpKind::kBroadcast, OpKind::kAllgather, OpKind::kBarrier};
    Signature& signature = tensors.emplace_back();
    signature.op = kOps[random() % 4];
    if (signature.op == OpKind::kBroadcast) signature.root = below(random, size);
    if (signature.op == OpKind::kBarrier) continue;
    const bool is_ragged = signature.op == OpKind::kAllgather;
    signature.tensors = {{DType::kFloat32, is_ragged ? Shape{Signature::kRagged, 2} : Shape{1 + tensor}}};
  }
  return tensors;
}

Program random_program(std::mt19937& random, int size) {
  Program program{size, random_sets(random, size), {}, random_tensors(random, size), {}, {}, {}};
  for (int phase = 0; phase < kPhases; ++phase) {
    const std::vector<Step>& steps = program.steps.emplace_back(random_steps(random, program.sets, phase));
    const auto last_change =
        std::find_if(steps.rbegin(), steps.rend(), [](const Step& step) { return step.kind != Step::kCall; });
    // Sets change only when all ranks take part.
    const auto least = static_cast<int>(steps.rend() - last_change);
    const bool all_run_out_together = below(random, 4) == 0;
    std::vector<int>& calls = program.step_calls.emplace_back();
    std::vector<std::vector<int>>& rounds = program.rounds.emplace_back();
    for (int rank = 0; rank < size; ++rank) {
      const auto count = static_cast<int>(steps.size());
      calls.push_back(all_run_out_together ? count : least + below(random, count - least + 1));
      std::vector<int>& own = rounds.emplace_back();
      // Somewhere amid a round. Rounds apart, a rank could wait for a tensor that another never calls, which
      // itself waits for one that the first never calls.
      const int whole = below(random, kRounds);
      for (int tensor = 0; tensor < kTensors; ++tensor)
        own.push_back(all_run_out_together ? kRounds : whole + below(random, 2));
    }
  }
  for (const SetPlan& set : program.sets) {
    std::vector<int>& calls = program.set_calls.emplace_back();
    for (int rank = 0; rank < size; ++rank)
      calls.push_back(set.lasts ? kSetCalls : below(random, kSetCalls + 1));
  }
  return program;
}

struct Join {};
using Action = std::variant<Request, Join>;

/// One rank on its way through the program.
class Rank {
 public:
  Rank(const Program& program, int rank)
      : program_(&program), rank_(rank), ids_(program.sets.size(), 0), set_unnamed_(program.sets.size(), 0) {
    begin_phase();
  }

  [[nodiscard]] bool finished() const { return phase_ == kPhases; }

  /// Something this rank may do now, given what has come out here.
  [[nodiscard]] std::optional<Action> choose(std::mt19937& random, const std::vector<Batch>& batches) {
    take_note_of(batches);
    if (finished() || joined_) return std::nullopt;
    std::vector<std::function<Action()>> choices;
    add_step(choices);
    for (int tensor = 0; tensor < kTensors; ++tensor) add_tensor(choices, tensor);
    for (int set = 0; set < static_cast<int>(ids_.size()); ++set) add_set_calls(choices, set);
    if (!choices.empty()) return choices[random() % choices.size()]();
    if (!is_through()) return std::nullopt;
    joined_ = true;
    return Join{};
  }

 private:
  using Choices = std::vector<std::function<Action()>>;

  void begin_phase() {
    joined_ = false;
    next_step_ = 0;
    next_round_.assign(kTensors, 0);
    out_rounds_.assign(kTensors, 0);
    phase_set_unnamed_.assign(ids_.size(), 0);
    phase_set_named_.assign(ids_.size(), 0);
  }

  [[nodiscard]] int own_steps() const { return program_->step_calls[at(phase_)][at(rank_)]; }
  [[nodiscard]] int own_rounds(int tensor) const {
    return program_->rounds[at(phase_)][at(rank_)][at(tensor)];
  }
  [[nodiscard]] int own_set_calls(int set) const { return program_->set_calls[at(set)][at(rank_)]; }

  [[nodiscard]] bool has_made_set_calls(int set) const {
    const SetPlan& plan = program_->sets[at(set)];
    return !plan.contains(rank_) || !plan.is_used_in(phase_) ||
           (phase_set_unnamed_[at(set)] == own_set_calls(set) &&
            phase_set_named_[at(set)] == own_set_calls(set));
  }

  [[nodiscard]] bool is_through() const {
    for (int tensor = 0; tensor < kTensors; ++tensor) {
      if (next_round_[at(tensor)] < own_rounds(tensor)) return false;
    }
    for (int set = 0; set < static_cast<int>(ids_.size()); ++set) {
      if (!has_made_set_calls(set)) return false;
    }
    return next_step_ == own_steps();
  }

  void add_step(Choices& choices) {
    if (next_step_ == own_steps()) return;
    const Step step = program_->steps[at(phase_)][at(next_step_)];
    // A set can be removed once it has come out here and all is called that this rank wants to call.
    if (step.kind == Step::kRemove && (ids_[at(step.set)] == 0 || !has_made_set_calls(step.set))) return;
    choices.emplace_back([this, step]() -> Action {
      const auto number = static_cast<std::uint64_t>(++next_step_);
      if (step.kind == Step::kCall) return unnamed_request(number, {1 + next_step_ % 3});
      return set_request(step.kind == Step::kAdd ? OpKind::kAddProcessSet : OpKind::kRemoveProcessSet, number,
                         program_->sets[at(step.set)].ranks);
    });
  }

  void add_tensor(Choices& choices, int tensor) {
    const int round = next_round_[at(tensor)];
    if (round == own_rounds(tensor) || out_rounds_[at(tensor)] < round) return;
    choices.emplace_back([this, tensor]() -> Action {
      ++next_round_[at(tensor)];
      const Signature& signature = program_->tensors[at(tensor)];
      Request request{{fmt::format("t{}", tensor)}, signature, 4};
      if (signature.op != OpKind::kAllgather) request.bytes = signature.bytes();
      return request;
    });
  }

  void add_set_calls(Choices& choices, int set) {
    const SetPlan& plan = program_->sets[at(set)];
    if (ids_[at(set)] == 0 || !plan.contains(rank_) || !plan.is_used_in(phase_)) return;
    if (phase_set_unnamed_[at(set)] < own_set_calls(set)) {
      choices.emplace_back([this, set]() -> Action {
        ++phase_set_unnamed_[at(set)];
        const int number = ++set_unnamed_[at(set)];
        return on(ids_[at(set)], unnamed_request(static_cast<std::uint64_t>(number), {1 + number % 2}));
      });
    }
    const int name = phase_set_named_[at(set)];
    // The same names in every set and, once they have come out, in every phase.
    if (name < own_set_calls(set) &&
        set_out_[{ids_[at(set)], fmt::format("t{}", name)}] == phase_ - plan.phase) {
      choices.emplace_back([this, set, name]() -> Action {
        ++phase_set_named_[at(set)];
        return on(ids_[at(set)], named_request(fmt::format("t{}", name), {1 + name % 3}));
      });
    }
  }

  void take_note_of(const std::vector<Batch>& batches) {
    for (; noted_ < batches.size(); ++noted_) {
      const Batch& batch = batches[noted_];
      for (const BatchEntry& entry : batch.entries) {
        const std::string& name = entry.key.name;
        if (batch.process_set() != kGlobalSet) {
          ++set_out_[{batch.process_set(), name}];
        } else if (!name.empty()) {
          ++out_rounds_[at(name[1] - '0')];
        }
      }
      if (batch.signature().op == OpKind::kAddProcessSet) {
        const auto set = std::ranges::find(program_->sets, batch.signature().ranks, &SetPlan::ranks);
        ids_[static_cast<std::size_t>(set - program_->sets.begin())] = static_cast<std::int32_t>(batch.value);
      } else if (batch.signature().op == OpKind::kJoin) {
        ++phase_;
        begin_phase();
      }
    }
  }

  const Program* program_;
  int rank_;
  int phase_ = 0;
  bool joined_ = false;
  int next_step_ = 0;
  std::vector<int> next_round_;
  std::vector<int> out_rounds_;
  std::vector<std::int32_t> ids_;  // by set; 0 before it has come out
  std::vector<int> set_unnamed_;
  std::vector<int> phase_set_unnamed_;
  std::vector<int> phase_set_named_;
  std::map<std::pair<std::int32_t, std::string>, int> set_out_;
  std::size_t noted_ = 0;
};

std::vector<Rank> ranks_of(const Program& program) {
  std::vector<Rank> ranks;
  for (int rank = 0; rank < program.size; ++rank) ranks.emplace_back(program, rank);
  return ranks;
}

/// Moves the job in random steps until every rank is through, or `stop` says so.
template <typename Stop>
void run_randomly(VirtualJob& job, std::vector<Rank>& ranks, std::mt19937& random, Stop stop) {
  const unsigned eagerness = 1 + random() % 8;  // of the root to plan
  for (int steps = 0; !stop() && !std::ranges::all_of(ranks, &Rank::finished); ++steps) {
    if (steps > kFarTooMany) throw std::runtime_error("some rank waits for ever");
    if (random() % eagerness == 0) job.cut();
    if (random() % 2 == 0 && job.deliver(random)) continue;
    const int rank = below(random, job.size());
    const std::optional<Action> action = ranks[at(rank)].choose(random, job.batches(rank));
    if (!action) {
      if (!job.deliver(random)) job.cut();
    } else if (const auto* request = std::get_if<Request>(&*action)) {
      job.submit(rank, *request);
    } else {
      job.join(rank);
    }
  }
}

/// What came out, told apart by phase and set: how many contributed each time, or "error".
using Outcome = std::map<std::string, std::vector<std::string>>;

std::string global_key(int phase, const Key& key) {
  return fmt::format("phase {} {}", phase, key.to_string());
}
std::string set_key(const std::vector<int>& ranks, const Key& key) {
  return fmt::format("set [{}] {}", fmt::join(ranks, ","), key.to_string());
}

Outcome outcome_of(const std::vector<Batch>& batches) {
  Outcome outcome;
  std::map<std::int32_t, std::vector<int>> sets;
  int phase = 0;
  for (const Batch& batch : batches) {
    const OpKind op = batch.signature().op;
    const std::string text = batch.error.empty() ? std::to_string(batch.contributors) : "error";
    for (const BatchEntry& entry : batch.entries) {
      if (op == OpKind::kJoin) continue;
      outcome[batch.process_set() == kGlobalSet ? global_key(phase, entry.key)
                                                : set_key(sets.at(batch.process_set()), entry.key)]
          .push_back(text);
    }
    if (op == OpKind::kJoin) ++phase;
    if (op == OpKind::kAddProcessSet) sets[static_cast<std::int32_t>(batch.value)] = batch.signature().ranks;
    if (op == OpKind::kRemoveProcessSet) sets.erase(static_cast<std::int32_t>(batch.value));
  }
  outcome["joins"].push_back(std::to_string(phase));
  return outcome;
}

Outcome expected_outcome(const Program& program, int rank) {
  Outcome outcome;
  outcome["joins"].push_back(std::to_string(kPhases));
  for (int phase = 0; phase < kPhases; ++phase) {
    for (int step = 0; step < static_cast<int>(program.steps[at(phase)].size()); ++step) {
      const auto callers = program.callers_of_step(phase, step).size();
      if (callers == 0) continue;
      outcome[global_key(phase, {"", static_cast<std::uint64_t>(step + 1)})].push_back(
          std::to_string(callers));
    }
    for (int tensor = 0; tensor < kTensors; ++tensor) {
      for (int round = 0; round < kRounds; ++round) {
        const std::vector<int> callers = program.callers_of_round(phase, tensor, round);
        if (callers.empty()) continue;
        const Signature& signature = program.tensors[at(tensor)];
        const bool lacks_root = signature.op == OpKind::kBroadcast &&
                                !std::ranges::binary_search(callers, static_cast<int>(signature.root));
        outcome[global_key(phase, {fmt::format("t{}", tensor)})].push_back(
            lacks_root ? "error" : std::to_string(callers.size()));
      }
    }
  }
  for (int set = 0; set < static_cast<int>(program.sets.size()); ++set) {
    const SetPlan& plan = program.sets[at(set)];
    if (!plan.contains(rank)) continue;
    const int phases = plan.lasts ? kPhases : 1;
    for (int call = 0; call < phases * program.common_set_calls(set); ++call) {
      outcome[set_key(plan.ranks, {"", static_cast<std::uint64_t>(call + 1)})].push_back(
          std::to_string(plan.ranks.size()));
      outcome[set_key(plan.ranks, {fmt::format("t{}", call % program.common_set_calls(set))})].push_back(
          std::to_string(plan.ranks.size()));
    }
  }
  return outcome;
}

std::vector<std::string> describe_fully(const std::vector<Batch>& batches) {
  std::vector<std::string> texts = describe_batches(batches);
  for (std::size_t number = 0; number < batches.size(); ++number) {
    texts[number] += fmt::format(" in {} by {} value {}", batches[number].process_set(),
                                 batches[number].contributors, batches[number].value);
  }
  return texts;
}

/// Any two ranks see the batches of the sets that both belong to in the same order.
void expect_one_order(const VirtualJob& job) {
  std::map<std::int32_t, std::vector<int>> sets;
  for (const Batch& batch : job.batches(0)) {
    if (batch.signature().op == OpKind::kAddProcessSet)
      sets[static_cast<std::int32_t>(batch.value)] = batch.signature().ranks;
  }
  const auto seen_with = [&](int rank, int other) {
    std::vector<Batch> common;
    std::ranges::copy_if(job.batches(rank), std::back_inserter(common), [&](const Batch& batch) {
      return batch.process_set() == kGlobalSet ||
             std::ranges::binary_search(sets.at(batch.process_set()), other);
    });
    return describe_fully(common);
  };
  for (int rank = 0; rank < job.size(); ++rank) {
    for (int other = 0; other < rank; ++other)
      ASSERT_EQ(seen_with(rank, other), seen_with(other, rank)) << "ranks " << rank << " and " << other;
  }
}

void expect_small_batches(const std::vector<Batch>& batches, std::uint64_t threshold) {
  for (const Batch& batch : batches) {
    if (batch.entries.size() == 1) continue;
    std::uint64_t bytes = 0;
    for (const BatchEntry& entry : batch.entries) bytes += entry.signature->bytes();
    ASSERT_LE(bytes, threshold);
  }
}

TEST(Membership, every_call_comes_out_once_with_the_right_number_of_contributors) {
  for_seeds(400, 12, [](std::mt19937& random, const JobShape& shape) {
    const Program program = random_program(random, shape.size());
    const NegotiatorOptions options = random_options(random);
    VirtualJob job(shape, options);
    std::vector<Rank> ranks = ranks_of(program);
    run_randomly(job, ranks, random, [] { return false; });
    job.settle();
    expect_one_order(job);
    for (int rank = 0; rank < job.size(); ++rank) {
      ASSERT_EQ(outcome_of(job.batches(rank)), expected_outcome(program, rank)) << "rank " << rank;
      expect_small_batches(job.batches(rank), options.fusion.threshold_bytes);
    }
  });
}

TEST(Membership, works_on_larger_trees) {
  for_seeds(40, 60, [](std::mt19937& random, const JobShape& shape) {
    const Program program = random_program(random, shape.size());
    VirtualJob job(shape, random_options(random));
    std::vector<Rank> ranks = ranks_of(program);
    run_randomly(job, ranks, random, [] { return false; });
    job.settle();
    for (int rank = 0; rank < job.size(); ++rank)
      ASSERT_EQ(outcome_of(job.batches(rank)), expected_outcome(program, rank)) << "rank " << rank;
  });
}

TEST(Membership, a_departure_cuts_the_sequence_of_every_set_at_the_same_place) {
  for_seeds(200, 12, [](std::mt19937& random, const JobShape& shape) {
    const Program program = random_program(random, shape.size());
    VirtualJob job(shape, random_options(random));
    std::vector<Rank> ranks = ranks_of(program);
    int steps_left = below(random, 800);
    run_randomly(job, ranks, random, [&] { return steps_left-- == 0; });
    job.leave(below(random, job.size()), "it was shut down");
    int steps_after = below(random, 300);
    run_randomly(job, ranks, random, [&] { return steps_after-- == 0; });
    job.settle();
    expect_one_order(job);
    for (int rank = 0; rank < job.size(); ++rank) {
      ASSERT_TRUE(job.departure(rank).has_value());
      EXPECT_EQ(job.departure(rank)->rank, job.departure(0)->rank);
      EXPECT_EQ(job.late_plans(rank), 0);
    }
  });
}

}  // namespace
}  // namespace hora::testing
