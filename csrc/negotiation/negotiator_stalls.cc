// What stands still, found by the nodes of the tree and put together at its root.

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "negotiation/negotiator.h"
#include "negotiation/plausible.h"

namespace hora {
namespace {

// How long a parent may take to answer.
constexpr auto kAnswerTime = std::chrono::seconds(2);
// Ticks until what children know has come to the root: a tick for each level, and one more.
constexpr int kGatheringTicks = 4;

std::uint64_t seconds_of(Duration duration) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(duration).count());
}

}  // namespace

void Negotiator::Stalls::add(Stalls&& more) {
  if (!more.calls.empty()) calls = std::move(more.calls);
  is_over = is_over || more.is_over;
  std::ranges::move(more.batches, std::back_inserter(batches));
  std::ranges::move(more.answers, std::back_inserter(answers));
  if (more.question) question = std::move(more.question);
  if (more.silent_parent) silent_parent = more.silent_parent;
}

/// Zero: for ever.
Duration Negotiator::patience() const {
  const auto [warning, abort] = options_.stalls;
  if (warning == Duration::zero() || abort == Duration::zero()) return std::max(warning, abort);
  return std::min(warning, abort);
}

Duration Negotiator::tick() const {
  using namespace std::chrono_literals;
  return std::clamp<Duration>(patience() / 20, 20ms, 1s);
}

void Negotiator::on_tick(TimePoint now, bool waits) {
  if (closed_ || patience() == Duration::zero()) return;
  std::vector<StalledCall> calls = find_stalled(now);
  add_reported(calls);
  if (tree_.is_root()) {
    add_join(calls, now);
    tell_at_root(std::move(calls), now);
  } else {
    tell_parent(std::move(calls), now, waits);
  }
}

std::vector<StalledCall> Negotiator::find_stalled(TimePoint now) {
  std::vector<StalledCall> calls;
  for (auto& [key, pending] : pending_) {
    if (pending.since == TimePoint()) pending.since = now;
    if (now - pending.since < patience()) continue;
    if (!std::exchange(pending.is_told, true)) has_news_ = true;
    calls.push_back(
        {key, signature_of(pending)->op, seconds_of(now - pending.since), contributors_of(key, pending), {}});
  }
  return calls;
}

/// A child that has announced the call since has reported less than that.
void Negotiator::add_reported(std::vector<StalledCall>& calls) const {
  for (const auto& [key, reported] : reported_) {
    auto call = std::ranges::find(calls, key, &StalledCall::key);
    if (call == calls.end()) {
      RankSet made_by;
      if (const auto own = pending_.find(key); own != pending_.end())
        made_by = contributors_of(key, own->second);
      call = calls.insert(calls.end(), {key, reported.op, 0, std::move(made_by), {}});
    }
    call->seconds = std::max(call->seconds, reported.seconds);
    for (const auto& [child, ranks] : reported.made_by) call->made_by.merge(ranks);
  }
}

/// Ranks that have joined wait for the others. That is no news as long as these go on.
void Negotiator::add_join(std::vector<StalledCall>& calls, TimePoint now) {
  if (joined_.empty()) return;
  if (joined_since_ == TimePoint()) joined_since_ = now;
  if (now - joined_since_ < patience()) return;
  calls.push_back({Key::join(), OpKind::kJoin, seconds_of(now - joined_since_), RankSet(joined_), {}});
}

void Negotiator::tell_parent(std::vector<StalledCall> calls, TimePoint now, bool waits) {
  if (!waits) {
    waits_since_ = asked_parent_ = {};
  } else if (waits_since_ == TimePoint()) {
    waits_since_ = now;
  }
  if (asked_parent_ != TimePoint() && now - asked_parent_ > kAnswerTime) {
    outputs_.stalls.silent_parent = *tree_.parent();
    asked_parent_ = {};
  }
  const bool waits_long = waits && now - waits_since_ >= patience();
  const bool is_due = now >= next_report_ && (waits_long || !calls.empty());
  if (!std::exchange(has_news_, false) && !is_due) return;
  if (is_due) next_report_ = now + patience();
  if (asked_parent_ == TimePoint()) asked_parent_ = now;
  outputs_.messages.push_back({*tree_.parent(), encode(calls)});
}

RankSet Negotiator::missing_from(const StalledCall& call) const {
  const auto members = sets_.find(call.key.process_set);
  if (members == sets_.end()) return {};
  std::vector<int> missing = members->second.ranks().to_vector();
  std::erase_if(missing, [&](int rank) {
    return call.made_by.contains(rank) ||
           (call.key.process_set == kGlobalSet && std::ranges::count(joined_, rank) > 0);
  });
  return RankSet(std::move(missing));
}

void Negotiator::tell_at_root(std::vector<StalledCall> calls, TimePoint now) {
  for (StalledCall& call : calls) call.missing = missing_from(call);
  std::erase_if(calls, [](const StalledCall& call) { return call.missing.empty(); });
  if (calls.empty()) {
    first_stall_ = {};
    return;
  }
  if (first_stall_ == TimePoint()) first_stall_ = now;
  if (now - first_stall_ < kGatheringTicks * tick()) return;
  const auto oldest = std::ranges::max_element(calls, {}, &StalledCall::seconds);
  const Duration abort = options_.stalls.abort;
  const bool is_over = abort != Duration::zero() && oldest->seconds >= seconds_of(abort);
  const bool is_due = options_.stalls.warning != Duration::zero() &&
                      oldest->seconds >= seconds_of(options_.stalls.warning) && now >= next_notice_;
  if (!is_over && !is_due) return;
  next_notice_ = now + options_.stalls.warning;
  outputs_.stalls.is_over = is_over;
  outputs_.stalls.calls = std::move(calls);
}

void Negotiator::take_report(Source child, const std::vector<StalledCall>& calls) {
  has_news_ = true;
  for (const StalledCall& call : calls) {
    require_below(call.made_by, tree_.subtree(child));
    if (!sets_.contains(call.key.process_set)) continue;
    const auto own = pending_.find(call.key);
    // The announcement of its whole subtree has come meanwhile.
    if (own != pending_.end() && std::ranges::count(own->second.heard, child) > 0) continue;
    Reported& reported = reported_[call.key];
    reported.op = call.op;
    reported.seconds = std::max(reported.seconds, call.seconds);
    reported.made_by[child] = call.made_by;
  }
}

void Negotiator::ask(const Question& question) {
  relay(question);
}

void Negotiator::relay(const Question& question) {
  if (question.ranks.contains(tree_.rank())) outputs_.stalls.question = question;
  const std::vector<int> ranks = question.ranks.to_vector();
  for (std::size_t child = 0; child < tree_.children().size(); ++child) {
    const RankSet& subtree = tree_.subtree(child);
    if (std::ranges::any_of(ranks, [&](int rank) { return subtree.contains(rank); }))
      outputs_.messages.push_back({tree_.children()[child], encode(question)});
  }
}

void Negotiator::on_answer(const Answer& answer) {
  if (tree_.is_root()) {
    outputs_.stalls.answers.push_back(answer);
  } else {
    outputs_.messages.push_back({*tree_.parent(), encode(answer)});
  }
}

void Negotiator::on_lasting(const LastingBatch& batch) {
  if (tree_.is_root()) {
    outputs_.stalls.batches.push_back(batch);
  } else {
    outputs_.messages.push_back({*tree_.parent(), encode(batch)});
  }
}

}  // namespace hora
