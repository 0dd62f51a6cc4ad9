#include "negotiation/negotiator.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "negotiation/plausible.h"

namespace hora {

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
