#include "negotiation/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "base/error.h"
#include "negotiation/device_commit.h"
#include "negotiation/plausible.h"

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

Negotiator::Negotiator(Tree tree, NegotiatorOptions options)
    : tree_(std::move(tree)),
      options_(options),
      neighbours_(tree_.children()),
      cache_(options.cache_capacity) {
  if (tree_.parent()) neighbours_.push_back(*tree_.parent());
  joined_below_.resize(tree_.children().size());
  sets_.emplace(kGlobalSet, Members::all(tree_));
}

bool Negotiator::on_submit(const Request& request) {
  // A set that the sequence removes is gone here before the engine gets there and fails what is parked.
  const auto members = sets_.find(request.key.process_set);
  if (closed_ || members == sets_.end()) return false;
  const std::uint32_t id = cache_.find(request);
  if (id != 0 && members->second.sources() == 1 && !tree_.is_root()) {
    // Nobody else is waited for here, and the id tells the name.
    announcements_.push_back({{{}, request.key.number, request.key.process_set}, id, {}, {}});
    return true;
  }
  Pending& pending = pending_of(request.key, id);
  if (pending.id == 0) seen_of(pending, request.signature).sources.push_back(kSelf);
  count_contribution(request.key, pending, kSelf, 1);
  return id != 0;
}

void Negotiator::on_join() {
  if (!closed_) join(kSelf, tree_.rank());
}

void Negotiator::on_leave(const std::string& reason) {
  if (closed_) return;
  if (tree_.is_root()) {
    if (!departure_) departure_ = Departure{tree_.rank(), reason};
    return;
  }
  outputs_.messages.push_back({*tree_.parent(), encode(Departure{tree_.rank(), reason})});
}

/// A node holds this back with the call itself, so that it never overtakes its announcement.
void Negotiator::on_wait(const Key& key) {
  if (closed_) return;
  if (const auto found = pending_.find(key); found != pending_.end()) {
    found->second.is_waited_for = true;
  } else if (!tree_.is_root()) {
    waited_for_.push_back(key);
  } else {
    const auto is_same = [&](const ReadyCall& call) { return call.entry.key == key; };
    is_waited_for_ = is_waited_for_ || std::ranges::any_of(ready_, is_same);
  }
}

void Negotiator::on_through(const Through& through) {
  if (!tree_.is_root()) {
    if (!closed_) outputs_.messages.push_back({*tree_.parent(), encode(through)});
  } else if (const auto set = unfinished_.find(through.process_set); set != unfinished_.end()) {
    set->second -= std::min<std::size_t>(set->second, through.batches);
  }
}

void Negotiator::on_failure(const Failure& failure) {
  if (failed_) return;
  failed_ = closed_ = true;
  outputs_.failure = failure;
  for (const int neighbour : neighbours_) outputs_.messages.push_back({neighbour, encode(failure)});
}

void Negotiator::on_message(int peer, std::span<const std::byte> message) {
  try {
    take(peer, message);
  } catch (const Error& error) {
    raise(error.kind(), "rank {} sent what cannot be: {}", peer, error.what());
  }
}

void Negotiator::take(int peer, std::span<const std::byte> message) {
  switch (kind_of(message)) {
    case MessageKind::kAnnounce:
      if (closed_) return;
      for (const Announcement& announcement : decode_announcements(message, cache_)) {
        receive(child_number(peer), announcement);
      }
      return;
    case MessageKind::kPlan: {
      require_parent(peer);
      Plan plan = decode_plan(message, cache_);
      require_plausible(plan, members_of(plan.process_set), tree_.job_size());
      pass_plan(std::move(plan), Bytes(message.begin(), message.end()));
      return;
    }
    case MessageKind::kJoin:
      if (!closed_) receive_join(child_number(peer), decode_join(message));
      return;
    case MessageKind::kWait:
      static_cast<void>(child_number(peer));
      for (const Key& key : decode_waits(message)) on_wait(key);
      return;
    case MessageKind::kThrough:
      static_cast<void>(child_number(peer));
      on_through(decode_through(message));
      return;
    case MessageKind::kDepart:
      if (!closed_) pass_departure(child_number(peer), decode_departure(message));
      return;
    case MessageKind::kFailure:
      on_failure(decode_failure(message));
      return;
    case MessageKind::kGoodbye:
      return receive_goodbye(peer);
    case MessageKind::kStalled:
      if (closed_) return;
      outputs_.messages.push_back({peer, encode_heard()});
      return take_report(child_number(peer), decode_stalled(message));
    case MessageKind::kHeard:
      require_parent(peer);
      asks_parent_ = false;
      asked_parent_ = {};
      return;
    case MessageKind::kQuestion:
      require_parent(peer);
      if (!closed_) relay(decode_question(message));
      return;
    case MessageKind::kAnswer:
      static_cast<void>(child_number(peer));
      if (!closed_) on_answer(decode_answer(message));
      return;
    case MessageKind::kLasting:
      static_cast<void>(child_number(peer));
      if (closed_) return;
      outputs_.messages.push_back({peer, encode_heard()});
      return on_lasting(decode_lasting(message));
    case MessageKind::kCallerQuestion:
      require_parent(peer);
      if (!closed_) relay(decode_caller_question(message));
      return;
    case MessageKind::kCallerAnswer: {
      const RankSet& below = tree_.subtree(child_number(peer));
      CallerAnswer answer = decode_caller_answer(message);
      require_below(RankSet::single(answer.rank), below);
      if (!closed_) on_caller(std::move(answer));
      return;
    }
  }
}

void Negotiator::receive_join(Source child, int rank) {
  if (!tree_.subtree(child).contains(rank) || std::ranges::find(joined_, rank) != joined_.end())
    raise(ErrorKind::kSessionFailed, "rank {} has joined", rank);
  join(child, rank);
}

void Negotiator::pass_departure(Source child, Departure departure) {
  if (!tree_.subtree(child).contains(departure.rank))
    raise(ErrorKind::kSessionFailed, "rank {} leaves", departure.rank);
  if (!tree_.is_root()) {
    outputs_.messages.push_back({*tree_.parent(), encode(departure)});
  } else if (!departure_) {
    departure_ = std::move(departure);
  }
}

/// What is known of a call to which something of this id comes; 0 is a description. As soon as contributions
/// differ, those that came under an id are spelt out.
Negotiator::Pending& Negotiator::pending_of(const Key& key, std::uint32_t id) {
  auto found = pending_.find(key);
  if (found == pending_.end()) {
    auto node = new_node();
    node.key() = key;
    node.mapped().id = id;
    found = pending_.insert(std::move(node)).position;
  }
  Pending& pending = found->second;
  if (const std::uint32_t before = pending.id; before != id && before != 0) {
    pending.id = 0;
    if (!pending.heard.empty()) seen_of(pending, cache_.get(before).signature).sources = pending.heard;
  }
  return pending;
}

Negotiator::PendingCalls::node_type Negotiator::new_node() {
  if (spare_.empty()) {
    PendingCalls one;
    one.try_emplace({});
    return one.extract(one.begin());
  }
  auto node = std::move(spare_.back());
  spare_.pop_back();
  return node;
}

/// The call is complete.
void Negotiator::finish(PendingCalls::iterator call) {
  constexpr std::size_t kMostSpare = 1024;
  auto node = pending_.extract(call);
  Pending& pending = node.mapped();
  complete(node.key(), pending);
  if (!reported_.empty()) reported_.erase(node.key());
  if (spare_.size() >= kMostSpare) return;
  pending.seen.clear();
  pending.heard.clear();
  pending.contributors = 0;
  pending.is_waited_for = false;
  pending.since = {};
  pending.is_told = false;
  pending.partial.clear();
  spare_.push_back(std::move(node));
}

Negotiator::Seen& Negotiator::seen_of(Pending& pending, const SharedSignature& signature) {
  const auto same = std::ranges::find(pending.seen, signature, &Seen::signature);
  return same != pending.seen.end() ? *same : pending.seen.emplace_back(Seen{signature, {}, {}});
}

void Negotiator::receive(Source child, const Announcement& announcement) {
  const auto members = sets_.find(announcement.key.process_set);
  if (members == sets_.end()) return;  // the set was removed while this was under way
  require_plausible(announcement, tree_.subtree(child), members->second.below(child), tree_.job_size());
  Pending& pending = pending_of(announcement.key, announcement.id);
  if (announcement.id != 0) {
    if (pending.id == 0) seen_of(pending, cache_.get(announcement.id).signature).sources.push_back(child);
  } else if (announcement.variants.size() == 1) {
    seen_of(pending, announcement.variants.front().signature).sources.push_back(child);
  } else {
    for (const Variant& variant : announcement.variants) {
      seen_of(pending, variant.signature).ranks.merge(variant.ranks);
    }
  }
  if (std::ranges::find(pending.heard, child) != pending.heard.end())
    raise(ErrorKind::kSessionFailed, "{} was announced twice", announcement.key.to_string());
  int contributors = announcement.contributors.size();
  if (contributors > 0) {
    pending.partial.emplace(child, announcement.contributors);
  } else {
    contributors = members->second.below(child);
  }
  count_contribution(announcement.key, pending, child, contributors);
}

void Negotiator::count_contribution(const Key& key, Pending& pending, Source source, int contributors) {
  pending.heard.push_back(source);
  if (!reported_.empty()) {
    if (const auto known = reported_.find(key); known != reported_.end()) known->second.made_by.erase(source);
  }
  pending.contributors += contributors;
  if (is_complete(key, pending)) finish(pending_.find(key));
}

bool Negotiator::has_joined(Source source) const {
  return source == kSelf ? self_joined_ : joined_below_[source] == sets_.at(kGlobalSet).below(source);
}

bool Negotiator::is_complete(const Key& key, const Pending& pending) const {
  const std::size_t sources = sets_.at(key.process_set).sources();
  if (pending.heard.size() == sources) return true;
  if (joined_.empty() || key.process_set != kGlobalSet) return false;
  const auto is_missing = [&](Source source) {
    return std::ranges::find(pending.heard, source) == pending.heard.end() && !has_joined(source);
  };
  if (is_missing(kSelf)) return false;
  for (Source child = 0; child < tree_.children().size(); ++child) {
    if (is_missing(child)) return false;
  }
  return true;
}

void Negotiator::join(Source source, int rank) {
  joined_.push_back(rank);
  if (source == kSelf) {
    self_joined_ = true;
  } else {
    ++joined_below_[source];
  }
  if (has_joined(source)) complete_what_waited();
  // A join overtakes nothing that this subtree announced before.
  if (!tree_.parent()) return;
  send_announcements();
  outputs_.messages.push_back({*tree_.parent(), encode_join(rank)});
}

void Negotiator::complete_what_waited() {
  std::vector<Key> completed;
  for (const auto& [key, pending] : pending_) {
    if (is_complete(key, pending)) completed.push_back(key);
  }
  for (const Key& key : completed) finish(pending_.find(key));
}

void Negotiator::complete(const Key& key, const Pending& pending) {
  if (tree_.is_root()) return complete_at_root(key, pending);
  Announcement announcement{key, pending.id, {}, {}};
  if (pending.contributors != sets_.at(key.process_set).in_subtree())
    announcement.contributors = contributors_of(key, pending);
  if (pending.id == 0 && pending.seen.size() == 1) {
    announcement.variants.push_back({*pending.seen.front().signature, {}});
  } else if (pending.id == 0) {
    announcement.variants = variants_of(key, pending);
  }
  announcements_.push_back(std::move(announcement));
  if (pending.is_waited_for) waited_for_.push_back(key);
}

void Negotiator::complete_at_root(const Key& key, const Pending& pending) {
  BatchEntry entry{key, signature_of(pending), pending.id};
  if (is_disagreement(pending)) return ask_for_callers(std::move(entry), variants_of(key, pending));
  std::string error = find_error(key, pending);
  if (error.empty()) {
    is_waited_for_ = is_waited_for_ || pending.is_waited_for;
    ready_.push_back(
        {std::move(entry), pending.contributors, divisor(key, pending), absent_from(key, pending)});
    return;
  }
  Batch batch;
  batch.error = std::move(error);
  entry.id = 0;
  batch.entries.push_back(std::move(entry));
  errors_.push_back(std::move(batch));
}

/// The one that all sent, or one of several.
const SharedSignature& Negotiator::signature_of(const Pending& pending) const {
  return pending.id != 0 ? cache_.get(pending.id).signature : pending.seen.front().signature;
}

/// What Average divides by.
int Negotiator::divisor(const Key& key, const Pending& pending) const {
  return options_.joins_like_horovod ? sets_.at(key.process_set).in_subtree() : pending.contributors;
}

bool Negotiator::is_disagreement(const Pending& pending) const {
  return pending.seen.size() > 1 || !signature_of(pending)->refusal.empty();
}

std::string Negotiator::find_error(const Key& key, const Pending& pending) const {
  const Signature& first = *signature_of(pending);
  const Members& members = sets_.at(key.process_set);
  if (pending.contributors == members.in_subtree()) return {};
  const std::vector<int> absent = absent_from(key, pending);
  if (first.op == OpKind::kBroadcast && std::ranges::binary_search(absent, static_cast<int>(first.root))) {
    return fmt::format("broadcast {}: root_rank {} has joined and has nothing to send", key.to_string(),
                       first.root);
  }
  if (first.op == OpKind::kAddProcessSet || first.op == OpKind::kRemoveProcessSet) {
    return fmt::format("{}: ranks {} have joined; process sets change only while all ranks take part",
                       name(first.op), RankSet(absent).to_string());
  }
  if (options_.joins_like_horovod && first.op != OpKind::kAllreduce && first.op != OpKind::kBarrier) {
    return fmt::format("{} {}: ranks {} have joined (with HORA_JOIN_RULE=contributors it would go on)",
                       name(first.op), key.to_string(), RankSet(absent).to_string());
  }
  return {};
}

std::vector<Variant> Negotiator::variants_of(const Key& key, const Pending& pending) const {
  const Members& members = sets_.at(key.process_set);
  std::vector<Variant> variants;
  for (const Seen& seen : pending.seen) {
    Variant variant{*seen.signature, seen.ranks};
    for (const Source source : seen.sources) variant.ranks.merge(ranks_of(source, pending, members));
    variants.push_back(std::move(variant));
  }
  return variants;
}

RankSet Negotiator::ranks_of(Source source, const Pending& pending, const Members& members) const {
  if (source == kSelf) return RankSet::single(tree_.rank());
  if (const auto found = pending.partial.find(source); found != pending.partial.end()) return found->second;
  std::vector<int> ranks = tree_.subtree(source).to_vector();
  std::erase_if(ranks, [&](int rank) { return !members.ranks().contains(rank); });
  return RankSet(std::move(ranks));
}

RankSet Negotiator::contributors_of(const Key& key, const Pending& pending) const {
  RankSet ranks;
  for (const Source source : pending.heard) ranks.merge(ranks_of(source, pending, sets_.at(key.process_set)));
  return ranks;
}

/// Not joined_: the announcement that a join has completed arrives before the join.
std::vector<int> Negotiator::absent_from(const Key& key, const Pending& pending) const {
  const Members& members = sets_.at(key.process_set);
  if (pending.contributors == members.in_subtree()) return {};
  const RankSet contributors = contributors_of(key, pending);
  std::vector<int> absent = members.ranks().to_vector();
  std::erase_if(absent, [&](int rank) { return contributors.contains(rank); });
  return absent;
}

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

void Negotiator::pass_plan(Plan plan, const Bytes& encoded) {
  const Members& members = sets_.at(plan.process_set);
  for (std::size_t child = 0; child < tree_.children().size(); ++child) {
    if (members.below(child) > 0) outputs_.messages.push_back({tree_.children()[child], encoded});
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

void Negotiator::say_goodbye() {
  departs_ = true;
  pass_goodbye();
}

/// Upwards, once the whole subtree has said it; then the root says it downwards.
void Negotiator::pass_goodbye() {
  if (failed_ || !departs_ || departed_.size() < tree_.children().size()) return;
  if (tree_.is_root()) return depart_with_all();
  outputs_.messages.push_back({*tree_.parent(), encode_goodbye()});
}

void Negotiator::depart_with_all() {
  all_have_departed_ = true;
  for (const int child : tree_.children()) outputs_.messages.push_back({child, encode_goodbye()});
}

void Negotiator::receive_goodbye(int peer) {
  if (tree_.parent() == peer) {
    if (!departs_) raise(ErrorKind::kSessionFailed, "it says goodbye before this rank has");
    return depart_with_all();
  }
  const Source child = child_number(peer);
  if (std::ranges::count(departed_, child) > 0) raise(ErrorKind::kSessionFailed, "it says goodbye twice");
  departed_.push_back(child);
  pass_goodbye();
}

void Negotiator::send_announcements() {
  if (!announcements_.empty() && !closed_)
    outputs_.messages.push_back({*tree_.parent(), encode(announcements_)});
  if (!waited_for_.empty() && !closed_)
    outputs_.messages.push_back({*tree_.parent(), encode_waits(waited_for_)});
  announcements_.clear();
  waited_for_.clear();
}

Negotiator::Outputs Negotiator::take_outputs() {
  send_announcements();
  if (outputs_.messages.empty() && outputs_.plans.empty() && !outputs_.failure && outputs_.stalls.is_empty())
    return {};
  return std::exchange(outputs_, {});
}

Negotiator::Source Negotiator::child_number(int peer) const {
  const auto child = std::ranges::find(tree_.children(), peer);
  if (child == tree_.children().end()) {
    raise(ErrorKind::kSessionFailed, "rank {} is not its parent", tree_.rank());
  }
  return static_cast<Source>(child - tree_.children().begin());
}

void Negotiator::require_parent(int peer) const {
  if (tree_.parent() != peer)
    raise(ErrorKind::kSessionFailed, "it is not the parent of rank {}", tree_.rank());
}

const Members& Negotiator::members_of(std::int32_t process_set) const {
  const auto members = sets_.find(process_set);
  if (members == sets_.end()) raise(ErrorKind::kSessionFailed, "there is no process set {}", process_set);
  return members->second;
}

}  // namespace hora
