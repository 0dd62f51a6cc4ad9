#include "simulation/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/text.h"

namespace hora::simulation {
namespace {

constexpr int kEndings = 8;  // of so many seeds, one for each way to end, the others run to the end
constexpr int kNames = 8;
constexpr std::uint32_t kManyRanksEvery = 500;

bool one_in(std::mt19937& random, int many) {
  return below(random, many) == 0;
}

testing::JobShape make_shape(std::mt19937& random, std::uint32_t seed) {
  if (seed % kManyRanksEvery == 0) return {std::vector<int>(kManyRanks / 8, 8), 16};
  constexpr int kMost[] = {6, 16, 64, 64};
  testing::JobShape shape = testing::random_shape(random, kMost[random() % 4]);
  if (shape.size() == 1) shape.ranks_per_host.push_back(1);
  return shape;
}

Pace make_pace(std::mt19937& random) {
  constexpr Time kLatencies[] = {0, kMicrosecond, 20 * kMicrosecond, kMillisecond};
  constexpr int kSpikes[] = {0, 0, 10, 200};
  Pace pace;
  pace.inside = kLatencies[random() % 3];
  pace.between = kLatencies[random() % 4];
  pace.jitter = kLatencies[random() % 4];
  pace.spikes_of = kSpikes[random() % 4];
  pace.batch = 1 + kLatencies[random() % 4];
  pace.think = 1 + kLatencies[random() % 4];
  return pace;
}

/// Different sets of ranks, so that it is clear which one a removal means.
std::vector<std::vector<int>> make_sets(std::mt19937& random, int size) {
  std::vector<std::vector<int>> sets;
  for (int attempts = below(random, 5); attempts > 0; --attempts) {
    std::vector<int> ranks;
    const int density = 1 + below(random, 4);
    for (int rank = 0; rank < size; ++rank) {
      if (below(random, 4) < density) ranks.push_back(rank);
    }
    if (!ranks.empty() && std::ranges::find(sets, ranks) == sets.end()) sets.push_back(std::move(ranks));
  }
  return sets;
}

Shape make_tensor_shape(std::mt19937& random) {
  return {1 + below(random, 4), 1 + below(random, 3)};
}

class ProgramMaker {
 public:
  ProgramMaker(std::mt19937& random, Scenario& scenario) : random_(random), scenario_(scenario) {
    all_.resize(static_cast<std::size_t>(scenario.size()));
    std::iota(all_.begin(), all_.end(), 0);
    devices_ = below(random, 3);
    ranks_join_ = scenario.ending != Ending::kStall && one_in(random, 3);
    ranks_disagree_ = one_in(random, 3);
    added_.resize(scenario.sets.size(), false);
    removed_.resize(scenario.sets.size(), false);
  }

  void make() {
    const int phases = 1 + below(random_, ranks_join_ ? 3 : 2);
    for (int phase = 0; phase < phases; ++phase) scenario_.phases.push_back(make_phase());
    if (scenario_.ending == Ending::kStall) withhold();
  }

 private:
  Phase make_phase() {
    Phase phase;
    phase.ends_with_join = ranks_join_ && !one_in(random_, 4);
    const int steps = 1 + below(random_, 6);
    const int common = phase.ends_with_join ? 1 + below(random_, steps) : steps;
    for (int step = 0; step < steps; ++step) phase.steps.push_back(make_step(step < common));
    for (int rank = 0; rank < scenario_.size(); ++rank)
      phase.steps_of.push_back(common + below(random_, steps - common + 1));
    return phase;
  }

  /// Sets are talked about and in only while all ranks take part.
  Step make_step(bool all_take_part) {
    Step step;
    for (int name = below(random_, 2); name < kNames; name += 1 + below(random_, 4))
      step.calls.push_back(make_call(fmt::format("t{}", name), kAllRanks));
    for (int unnamed = below(random_, 3); unnamed > 0; --unnamed)
      step.calls.push_back(make_call("", kAllRanks));
    step.ends_with_wait = !one_in(random_, 4);
    for (int set = 0; all_take_part && set < static_cast<int>(scenario_.sets.size()); ++set)
      talk_in_set(step, set);
    return step;
  }

  void talk_in_set(Step& step, int set) {
    const auto at = static_cast<std::size_t>(set);
    if (removed_[at]) return;
    if (!added_[at]) {
      added_[at] = one_in(random_, 2);
      if (added_[at]) change_set(step, OpKind::kAddProcessSet, set);
      return;
    }
    for (int name = below(random_, 3); name < 3; ++name)
      step.calls.push_back(make_call(fmt::format("t{}", name), set));
    for (int unnamed = below(random_, 2); unnamed > 0; --unnamed) step.calls.push_back(make_call("", set));
    removed_[at] = one_in(random_, 4);
    if (!removed_[at]) return;
    change_set(step, OpKind::kRemoveProcessSet, set);
    // A removal fails what only some members have called by then.
    Call orphan = make_call("orphan", set);
    for (const int rank : scenario_.sets[at]) {
      if (one_in(random_, 2)) orphan.left_out_by.push_back(rank);
    }
    step.calls.push_back(std::move(orphan));
  }

  void change_set(Step& step, OpKind op, int set) {
    Signature signature;
    signature.op = op;
    signature.ranks = scenario_.sets[static_cast<std::size_t>(set)];
    step.calls.push_back({"", std::move(signature)});
    step.ends_with_wait = true;
  }

  Call make_call(const std::string& name, int set) {
    Call call{name, choose_signature(name, set), set};
    if (ranks_disagree_ && one_in(random_, 12)) disagree(call, members(set));
    return call;
  }

  /// Mostly one that the name has had before, as in training.
  SharedSignature choose_signature(const std::string& name, int set) {
    std::vector<SharedSignature>& known = known_[{set, name}];
    if (known.empty() || one_in(random_, 6)) known.emplace_back(make_signature(members(set)));
    return known[random_() % known.size()];
  }

  Signature make_signature(const std::vector<int>& ranks) {
    constexpr OpKind kOps[] = {OpKind::kAllreduce, OpKind::kAllreduce,     OpKind::kAllreduce,
                               OpKind::kBroadcast, OpKind::kReducescatter, OpKind::kAllgather,
                               OpKind::kAlltoall,  OpKind::kBarrier};
    Signature signature;
    signature.op = kOps[random_() % 8];
    if (signature.op == OpKind::kBroadcast) signature.root = ranks[random_() % ranks.size()];
    if (signature.op != OpKind::kBarrier) add_tensors(signature);
    return signature;
  }

  void add_tensors(Signature& signature) {
    const bool is_ragged = signature.op == OpKind::kAllgather || signature.op == OpKind::kAlltoall;
    for (int tensors = one_in(random_, 5) ? 1 + below(random_, 3) : 1; tensors > 0; --tensors) {
      Shape shape = make_tensor_shape(random_);
      if (is_ragged) shape.front() = Signature::kRagged;
      signature.tensors.push_back({one_in(random_, 4) ? DType::kInt8 : DType::kFloat32, std::move(shape)});
    }
    if (devices_ == 2 || (devices_ == 1 && one_in(random_, 2))) signature.device = DeviceKind::kCuda;
  }

  /// Some ranks refuse the call or mean another one.
  void disagree(Call& call, const std::vector<int>& ranks) {
    Signature other = *call.signature;
    if (one_in(random_, 3)) {
      other.refusal = "it was not in the mood";
    } else if (other.tensors.empty() || one_in(random_, 2)) {
      other.tensors.push_back({DType::kInt8, {5}});
    } else {
      other.tensors.front().shape.back() += 10;
    }
    const SharedSignature shared(std::move(other));
    for (int dissenters = 1 + below(random_, 3); dissenters > 0; --dissenters)
      call.otherwise.emplace(ranks[random_() % ranks.size()], shared);
  }

  /// One or two ranks never make a call that all others make.
  void withhold() {
    std::vector<Step>& steps = scenario_.phases[random_() % scenario_.phases.size()].steps;
    Call call = make_call("withheld", kAllRanks);
    call.otherwise.clear();
    for (int ranks = std::min(1 + below(random_, 2), scenario_.size() - 1); ranks > 0; --ranks)
      call.left_out_by.push_back(below(random_, scenario_.size()));
    std::ranges::sort(call.left_out_by);
    call.left_out_by.erase(std::unique(call.left_out_by.begin(), call.left_out_by.end()),
                           call.left_out_by.end());
    steps[random_() % steps.size()].calls.push_back(std::move(call));
  }

  [[nodiscard]] const std::vector<int>& members(int set) const {
    return set == kAllRanks ? all_ : scenario_.sets[static_cast<std::size_t>(set)];
  }

  std::mt19937& random_;
  Scenario& scenario_;
  std::vector<int> all_;
  int devices_;  // 0: no call is on a device, 1: some, 2: all
  bool ranks_join_;
  bool ranks_disagree_;
  std::map<std::pair<int, std::string>, std::vector<SharedSignature>> known_;  // by set and name
  std::vector<bool> added_;
  std::vector<bool> removed_;
};

Ending make_ending(std::mt19937& random) {
  switch (below(random, kEndings)) {
    case 0:
      return Ending::kStall;
    case 1:
      return Ending::kLeave;
    case 2:
      return Ending::kFail;
    case 3:
      return Ending::kCrash;
    default:
      return Ending::kNone;
  }
}

void choose_enders(std::mt19937& random, Scenario& scenario) {
  const int most = std::min(3, scenario.size() - 1);
  for (int enders = one_in(random, 3) ? most : 1; enders > 0; --enders)
    scenario.enders.push_back(below(random, scenario.size()));
  // Early moments as often as late ones.
  constexpr int kEventsPerRank = 60;
  const int most_events = 1 + below(random, kEventsPerRank * scenario.size());
  scenario.ending_at = static_cast<std::uint64_t>(below(random, most_events));
}

}  // namespace

std::string Scenario::to_string() const {
  constexpr const char* kEndingNames[] = {"", ", a call is withheld", ", a rank leaves", ", a rank fails",
                                          ", a rank crashes"};
  return fmt::format("{} ranks, {}, {} sets, {} phases{}", size(),
                     shape.ranks_per_host.size() > 16 ? fmt::format("{} hosts", shape.ranks_per_host.size())
                                                      : shape.to_string(),
                     sets.size(), phases.size(), kEndingNames[static_cast<int>(ending)]);
}

Scenario make_scenario(std::uint32_t seed) {
  constexpr std::uint64_t kThresholds[] = {0, 30, 1u << 20};
  constexpr std::uint64_t kCapacities[] = {0, 5, 1000, 1000};
  std::mt19937 random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.shape = make_shape(random, seed);
  scenario.options = testing::negotiator_options(kThresholds[random() % 3], kCapacities[random() % 4]);
  scenario.options.stalls.warning = std::chrono::seconds(10);
  scenario.pace = make_pace(random);
  scenario.sets = make_sets(random, scenario.size());
  scenario.ending = make_ending(random);
  choose_enders(random, scenario);
  ProgramMaker(random, scenario).make();
  return scenario;
}

}  // namespace hora::simulation
