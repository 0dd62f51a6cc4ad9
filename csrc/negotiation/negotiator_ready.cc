// What becomes of a call that the whole subtree has announced: it goes on to the parent, or at the root it is
// ready, an error, or a disagreement.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "negotiation/negotiator.h"

namespace hora {

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

}  // namespace hora
