// Plans: the root puts what is ready into them, every node passes them on and follows them.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "negotiation/device_commit.h"
#include "negotiation/negotiator.h"

namespace hora {
namespace {

/// Moves out what is of one process set.
template <typename Item>
std::vector<Item> take_of(std::int32_t set, std::vector<Item>& items) {
  const auto is_other = [set](const Item& item) { return item.process_set() != set; };
  std::vector<Item> taken = std::exchange(items, {});
  if (std::ranges::none_of(taken, is_other)) return taken;
  const auto others = std::stable_partition(taken.begin(), taken.end(), std::not_fn(is_other));
  std::move(others, taken.end(), std::back_inserter(items));
  taken.erase(others, taken.end());
  return taken;
}

bool on_device(const ReadyCall& call) {
  return call.entry.signature->device != DeviceKind::kHost;
}

/// Ragged dimensions are not known here; such calls count as large as a row.
std::uint64_t known_bytes(const Signature& signature) {
  std::uint64_t bytes = 0;
  for (const TensorType& tensor : signature.tensors) {
    const bool is_ragged = !tensor.shape.empty() && tensor.shape.front() == Signature::kRagged;
    bytes += is_ragged ? tensor.row_bytes() : tensor.bytes();
  }
  return bytes;
}

}  // namespace

bool Negotiator::can_cut(std::size_t unfinished) const {
  if (!tree_.is_root() || closed_) return false;
  const bool all_joined = static_cast<int>(joined_.size()) == tree_.job_size();
  if (!errors_.empty() || all_joined || departure_) return true;
  const std::vector<std::int32_t> held = held_back_loads(unfinished);
  return std::ranges::any_of(ready_, [&](const ReadyCall& call) { return !is_held_back(call, held); });
}

/// All process sets that the root is in put a load on its own device, for which the global set stands. The
/// load of any other set counts by itself.
std::int32_t Negotiator::load_of(std::int32_t process_set) const {
  return sets_.at(process_set).has_self() ? kGlobalSet : process_set;
}

/// The loads of which no calls may be planned. What changes who takes part comes after everything that was
/// ready before it.
std::vector<std::int32_t> Negotiator::held_back_loads(std::size_t unfinished) const {
  if (departure_ || static_cast<int>(joined_.size()) == tree_.job_size()) return {};
  std::map<std::int32_t, DeviceLoad> loads;
  for (const ReadyCall& call : ready_) {
    const OpKind op = call.entry.signature->op;
    if (op == OpKind::kAddProcessSet || op == OpKind::kRemoveProcessSet || op == OpKind::kBarrier) return {};
    if (!on_device(call)) continue;
    const std::int32_t set = load_of(call.process_set());
    DeviceLoad& load = loads[set];
    load.ready_bytes += known_bytes(*call.entry.signature);
    load.bucket_bytes = options_.fusion.threshold_bytes;
    load.caller_waits = is_waited_for_;
    const auto told = unfinished_.find(set);
    load.unfinished = set == kGlobalSet ? unfinished : told != unfinished_.end() ? told->second : 0;
  }
  std::vector<std::int32_t> held;
  for (const auto& [set, load] : loads)
    if (!may_plan(load)) held.push_back(set);
  return held;
}

bool Negotiator::is_held_back(const ReadyCall& call, const std::vector<std::int32_t>& loads) const {
  return on_device(call) && std::ranges::find(loads, load_of(call.process_set())) != loads.end();
}

/// What a plan gives to devices whose progress the root is told.
void Negotiator::count_on_devices(const Plan& plan) {
  if (sets_.at(plan.process_set).has_self()) return;
  unfinished_[plan.process_set] +=
      static_cast<std::size_t>(std::ranges::count_if(plan.batches, [](const Batch& batch) {
        return batch.error.empty() && batch.signature().device != DeviceKind::kHost;
      }));
}

void Negotiator::cut(std::size_t unfinished) {
  // Their calls were ready before.
  if (departure_ || static_cast<int>(joined_.size()) == tree_.job_size()) end_disagreements();
  std::vector<ReadyCall> held_back;
  const auto held = std::stable_partition(
      ready_.begin(), ready_.end(),
      [&, loads = held_back_loads(unfinished)](const ReadyCall& call) { return !is_held_back(call, loads); });
  std::move(held, ready_.end(), std::back_inserter(held_back));
  ready_.erase(held, ready_.end());
  if (held_back.empty()) is_waited_for_ = false;
  // The global set comes last, because its batches may remove another set.
  std::vector<std::int32_t> sets{kGlobalSet};
  const auto mention = [&](std::int32_t set) {
    if (std::ranges::find(sets, set) == sets.end()) sets.push_back(set);
  };
  for (const ReadyCall& call : ready_) mention(call.process_set());
  for (const Batch& batch : errors_) mention(batch.process_set());
  std::ranges::sort(sets, std::greater<>());
  for (const std::int32_t set : sets) plan_set(set, take_of(set, ready_), take_of(set, errors_));
  ready_ = std::move(held_back);
}

void Negotiator::plan_set(std::int32_t process_set, std::vector<ReadyCall> ready, std::vector<Batch> errors) {
  Plan plan;
  plan.process_set = process_set;
  plan.batches = fuse(std::move(ready), options_.fusion);
  for (Batch& batch : plan.batches) decide_set_change(batch);
  const std::uint32_t first_new_id = cache_.last_id() + 1;
  assign_ids(plan);
  std::ranges::move(errors, std::back_inserter(plan.batches));
  if (process_set == kGlobalSet) {
    if (static_cast<int>(joined_.size()) == tree_.job_size()) plan.batches.push_back(join_batch());
    plan.departure = std::exchange(departure_, std::nullopt);
  }
  if (plan.batches.empty() && !plan.departure) return;
  for (Batch& batch : plan.batches) {
    batch.number = batches_++;
    batch.route = options_.choose_route(batch);
  }
  count_on_devices(plan);
  const Bytes encoded = encode(plan, first_new_id);
  pass_plan(std::move(plan), encoded);
}

void Negotiator::assign_ids(Plan& plan) {
  for (Batch& batch : plan.batches) {
    for (BatchEntry& entry : batch.entries) {
      if (entry.id == 0) entry.id = cache_.find({entry.key, *entry.signature});
      if (entry.id == 0) entry.id = cache_.give(entry.key, entry.signature);
    }
  }
}

void Negotiator::decide_set_change(Batch& batch) {
  const Signature& signature = batch.signature();
  if (signature.op == OpKind::kAddProcessSet) batch.value = ++last_set_;
  if (signature.op != OpKind::kRemoveProcessSet) return;
  const auto found = std::ranges::find_if(sets_, [&](const auto& set) {
    return set.first != kGlobalSet && set.second.ranks() == RankSet(signature.ranks);
  });
  if (found != sets_.end()) {
    batch.value = found->first;
  } else {
    batch.error = fmt::format("remove_process_set: there is no set of the ranks {}",
                              RankSet(signature.ranks).to_string());
  }
}

/// The batch that ends a join on all ranks.
Batch Negotiator::join_batch() {
  Batch batch;
  batch.piece_bytes = options_.fusion.piece_bytes;
  batch.value = joined_.back();
  Signature signature;
  signature.op = OpKind::kJoin;
  batch.entries.push_back({Key::join(), std::move(signature), 0});
  return batch;
}

/// Each child gets a copy, with room for the byte that its edge adds.
void Negotiator::pass_down(std::size_t child, const Bytes& message) {
  Bytes copy;
  copy.reserve(message.size() + 1);
  copy.insert(copy.end(), message.begin(), message.end());
  outputs_.messages.push_back({tree_.children()[child], std::move(copy)});
}

void Negotiator::pass_plan(Plan plan, const Bytes& encoded) {
  const Members& members = sets_.at(plan.process_set);
  for (std::size_t child = 0; child < tree_.children().size(); ++child) {
    if (members.below(child) > 0) pass_down(child, encoded);
  }
  if (plan.departure) closed_ = true;
  joined_since_ = waits_since_ = asked_parent_ = {};
  asks_parent_ = false;
  for (const Batch& batch : plan.batches) apply_set_change(batch);
  if (members.has_self()) outputs_.plans.push_back(std::move(plan));
}

void Negotiator::apply_set_change(const Batch& batch) {
  if (!batch.error.empty()) return;
  const auto process_set = static_cast<std::int32_t>(batch.value);
  switch (batch.signature().op) {
    case OpKind::kJoin:
      joined_.clear();
      self_joined_ = false;
      std::ranges::fill(joined_below_, 0);
      return;
    case OpKind::kAddProcessSet:
      sets_.emplace(process_set, Members(tree_, RankSet(batch.signature().ranks)));
      return;
    case OpKind::kRemoveProcessSet:
      sets_.erase(process_set);
      unfinished_.erase(process_set);
      std::erase_if(pending_, [&](const auto& pending) { return pending.first.process_set == process_set; });
      std::erase_if(reported_, [&](const auto& each) { return each.first.process_set == process_set; });
      std::erase_if(disagreements_,
                    [&](const auto& each) { return each.second.entry.key.process_set == process_set; });
      std::erase_if(waited_for_, [&](const Key& key) { return key.process_set == process_set; });
      std::erase_if(announcements_, [&](const auto& each) { return each.key.process_set == process_set; });
      return;
    default:
      return;
  }
}

}  // namespace hora
