#include "negotiation/negotiator.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "negotiation/mismatch.h"

namespace hora {

Negotiator::Negotiator(Tree tree, NegotiatorOptions options)
    : tree_(std::move(tree)),
      options_(options),
      neighbours_(tree_.children()),
      cache_(options.cache_capacity) {
  if (tree_.parent()) neighbours_.push_back(*tree_.parent());
}

void Negotiator::on_submit(const Request& request) {
  if (closed_) return;
  Pending& pending = pending_of(request.key, cache_.find(request));
  pending.bytes = request.bytes;
  seen_of(pending, request.signature).sources.push_back(kSelf);
  count_contribution(request.key, pending);
}

void Negotiator::on_leave(const std::string& reason) {
  if (closed_) return;
  if (tree_.is_root()) {
    if (!departure_) departure_ = Departure{tree_.rank(), reason};
    return;
  }
  outputs_.messages.push_back({*tree_.parent(), encode(Departure{tree_.rank(), reason})});
}

void Negotiator::on_failure(const Failure& failure) {
  if (failed_) return;
  failed_ = closed_ = true;
  outputs_.failure = failure;
  for (const int neighbour : neighbours_) outputs_.messages.push_back({neighbour, encode(failure)});
}

void Negotiator::on_message(int peer, std::span<const std::byte> message) {
  switch (kind_of(message)) {
    case MessageKind::kAnnounce:
      if (closed_) return;
      for (const Announcement& announcement : decode_announcements(message, cache_)) {
        receive(child_number(peer), announcement);
      }
      return;
    case MessageKind::kPlan:
      pass_plan(decode_plan(message, cache_), Bytes(message.begin(), message.end()));
      return;
    case MessageKind::kDepart:
      if (closed_) return;
      if (!tree_.is_root()) {
        outputs_.messages.push_back({*tree_.parent(), Bytes(message.begin(), message.end())});
      } else if (!departure_) {
        departure_ = decode_departure(message);
      }
      return;
    case MessageKind::kFailure:
      on_failure(decode_failure(message));
      return;
    case MessageKind::kGoodbye:
      ++goodbyes_;
      return;
  }
  raise(ErrorKind::kSessionFailed, "unknown control message from rank {}", peer);
}

Negotiator::Pending& Negotiator::pending_of(const Key& key, std::uint32_t id) {
  const auto [found, is_new] = pending_.try_emplace(key);
  Pending& pending = found->second;
  if (is_new) pending.id = id;
  if (pending.id != id) pending.id = 0;
  return pending;
}

Negotiator::Seen& Negotiator::seen_of(Pending& pending, const Signature& signature) {
  const auto same = std::ranges::find(pending.seen, signature, &Seen::signature);
  return same != pending.seen.end() ? *same : pending.seen.emplace_back(Seen{signature, {}, {}});
}

void Negotiator::receive(Source child, const Announcement& announcement) {
  Pending& pending = pending_of(announcement.key, announcement.id);
  if (announcement.id != 0) {
    seen_of(pending, cache_.get(announcement.id).signature).sources.push_back(child);
  } else if (announcement.variants.size() == 1) {
    seen_of(pending, announcement.variants.front().signature).sources.push_back(child);
  } else {
    for (const Variant& variant : announcement.variants) {
      seen_of(pending, variant.signature).ranks.merge(variant.ranks);
    }
  }
  count_contribution(announcement.key, pending);
}

void Negotiator::count_contribution(const Key& key, Pending& pending) {
  if (++pending.contributions < tree_.children().size() + 1) return;
  auto node = pending_.extract(key);
  complete(node.key(), std::move(node.mapped()));
}

void Negotiator::complete(const Key& key, Pending pending) {
  if (tree_.is_root()) return complete_at_root(key, std::move(pending));
  Announcement announcement{key, pending.id, {}};
  if (pending.id == 0 && pending.seen.size() == 1) {
    announcement.variants.push_back({std::move(pending.seen.front().signature), {}});
  } else if (pending.id == 0) {
    announcement.variants = variants_of(pending);
  }
  announcements_.push_back(std::move(announcement));
}

void Negotiator::complete_at_root(const Key& key, Pending pending) {
  Signature& first = pending.seen.front().signature;
  if (pending.seen.size() == 1 && first.refusal.empty()) {
    ready_.push_back({{key, std::move(first), 0}, pending.bytes});
    return;
  }
  Batch batch;
  batch.error = describe_mismatch(key, variants_of(pending));
  batch.entries.push_back({key, std::move(first), 0});
  errors_.push_back(std::move(batch));
}

std::vector<Variant> Negotiator::variants_of(const Pending& pending) const {
  std::vector<Variant> variants;
  for (const Seen& seen : pending.seen) {
    Variant variant{seen.signature, seen.ranks};
    for (const Source source : seen.sources) {
      variant.ranks.merge(source == kSelf ? RankSet::single(tree_.rank()) : tree_.subtree(source));
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

bool Negotiator::can_cut() const {
  return tree_.is_root() && !closed_ && (!ready_.empty() || !errors_.empty() || departure_);
}

void Negotiator::cut() {
  Plan plan;
  plan.batches = fuse(std::exchange(ready_, {}), options_.fusion);
  const std::uint32_t next_new_id = static_cast<std::uint32_t>(cache_.size() + 1);
  assign_ids(plan);
  std::ranges::move(std::exchange(errors_, {}), std::back_inserter(plan.batches));
  plan.departure = std::exchange(departure_, std::nullopt);
  const Bytes encoded = encode(plan, next_new_id);
  pass_plan(std::move(plan), encoded);
}

void Negotiator::assign_ids(Plan& plan) {
  for (Batch& batch : plan.batches) {
    for (BatchEntry& entry : batch.entries) {
      entry.id = cache_.find({entry.key, entry.signature});
      if (entry.id != 0) continue;
      entry.id = cache_.next_id();
      if (entry.id != 0) cache_.learn(entry.id, entry.key.name, entry.signature);
    }
  }
}

void Negotiator::pass_plan(Plan plan, const Bytes& encoded) {
  for (const int child : tree_.children()) outputs_.messages.push_back({child, encoded});
  if (plan.departure) closed_ = true;
  outputs_.plans.push_back(std::move(plan));
}

void Negotiator::say_goodbye() {
  for (const int neighbour : neighbours_) outputs_.messages.push_back({neighbour, encode_goodbye()});
}

Negotiator::Outputs Negotiator::take_outputs() {
  if (!announcements_.empty()) {
    if (!closed_) outputs_.messages.push_back({*tree_.parent(), encode(announcements_)});
    announcements_.clear();
  }
  return std::exchange(outputs_, {});
}

Negotiator::Source Negotiator::child_number(int peer) const {
  const auto child = std::ranges::find(tree_.children(), peer);
  if (child == tree_.children().end()) {
    raise(ErrorKind::kSessionFailed, "rank {} announced tensors to rank {}, which is not its parent", peer,
          tree_.rank());
  }
  return static_cast<Source>(child - tree_.children().begin());
}

}  // namespace hora
