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

// So many calls are told of at once.
constexpr std::size_t kMostCalls = 100;
// What a peer may say of the past.
constexpr std::uint64_t kMostSeconds = 1'000'000'000;

}  // namespace

void Negotiator::Stalls::add(Stalls&& more) {
  if (!more.calls.empty()) calls = std::move(more.calls);
  is_over = is_over || more.is_over;
  std::ranges::move(more.batches, std::back_inserter(batches));
  std::ranges::move(more.answers, std::back_inserter(answers));
  if (more.question) question = std::move(more.question);
  more_calls = std::max(more_calls, more.more_calls);
  if (!more.silent_parent) return;
  silent_parent = more.silent_parent;
  silent_seconds = more.silent_seconds;
}

Duration Negotiator::tick() const {
  using namespace std::chrono_literals;
  return std::clamp<Duration>(patience() / 20, 20ms, 1s);
}

void Negotiator::on_tick(TimePoint now, bool waits) {
  end_late_disagreements(now);
  if (closed_ || patience() == Duration::zero()) return;
  const std::uint64_t oldest = look_for_stalls(now);
  if (tree_.is_root()) {
    tell_at_root(now, oldest);
  } else {
    tell_parent(now, waits, oldest > 0);
  }
}

/// Stamps what is new, and returns for how many seconds the oldest call has stalled; 0: none has.
std::uint64_t Negotiator::look_for_stalls(TimePoint now) {
  TimePoint oldest = now;
  for (auto& [key, pending] : pending_) {
    if (pending.since == TimePoint()) pending.since = now;
    if (now - pending.since < patience()) continue;
    if (!std::exchange(pending.is_told, true)) has_news_ = true;
    oldest = std::min(oldest, pending.since);
  }
  for (auto& [key, reported] : reported_) {
    if (reported.since == TimePoint()) reported.since = now - std::chrono::seconds(reported.seconds);
    if (!reported.made_by.empty()) oldest = std::min(oldest, reported.since);
  }
  // Ranks that have joined wait for the others. That is no news as long as these go on.
  if (tree_.is_root() && !joined_.empty()) {
    if (joined_since_ == TimePoint()) joined_since_ = now;
    if (now - joined_since_ >= patience()) oldest = std::min(oldest, joined_since_);
  }
  return whole_seconds(now - oldest);
}

/// Sets of ranks are put together only when something is told.
std::vector<StalledCall> Negotiator::stalled_calls(TimePoint now) const {
  std::vector<StalledCall> calls;
  for (const auto& [key, pending] : pending_) {
    if (!pending.is_told || calls.size() == kMostCalls) continue;
    calls.push_back({key, signature_of(pending)->op, whole_seconds(now - pending.since), made_by(key), {}});
  }
  for (const auto& [key, reported] : reported_) {
    const auto own = pending_.find(key);
    if (reported.made_by.empty() || (own != pending_.end() && own->second.is_told)) continue;
    if (calls.size() < kMostCalls)
      calls.push_back({key, reported.op, whole_seconds(now - reported.since), made_by(key), {}});
  }
  if (tree_.is_root() && !joined_.empty() && now - joined_since_ >= patience())
    calls.push_back({Key::join(), OpKind::kJoin, whole_seconds(now - joined_since_), RankSet(joined_), {}});
  return calls;
}

/// Of a child that has announced the call as a whole, no less is known.
RankSet Negotiator::made_by(const Key& key) const {
  RankSet ranks;
  if (const auto own = pending_.find(key); own != pending_.end()) ranks = contributors_of(key, own->second);
  if (const auto reported = reported_.find(key); reported != reported_.end()) {
    for (const auto& [child, below] : reported->second.made_by) ranks.merge(below);
  }
  return ranks;
}

void Negotiator::tell_parent(TimePoint now, bool waits, bool is_stalled) {
  if (!waits) {
    waits_since_ = {};
  } else if (waits_since_ == TimePoint()) {
    waits_since_ = now;
  }
  if (std::exchange(asks_parent_, false) && asked_parent_ == TimePoint()) asked_parent_ = now;
  if (asked_parent_ != TimePoint() && now - asked_parent_ > kAnswerTime && now >= next_silence_) {
    outputs_.stalls.silent_parent = *tree_.parent();
    outputs_.stalls.silent_seconds = whole_seconds(now - asked_parent_);
    next_silence_ = now + patience();
  }
  const bool waits_long = waits && now - waits_since_ >= patience();
  const bool is_due = now >= next_report_ && (waits_long || is_stalled);
  if (!std::exchange(has_news_, false) && !is_due) return;
  if (is_due) next_report_ = now + patience();
  if (asked_parent_ == TimePoint()) asked_parent_ = now;
  outputs_.messages.push_back({*tree_.parent(), encode(stalled_calls(now))});
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

void Negotiator::tell_at_root(TimePoint now, std::uint64_t oldest_seconds) {
  has_news_ = false;
  if (oldest_seconds == 0) {
    first_stall_ = {};
    return;
  }
  if (first_stall_ == TimePoint()) first_stall_ = now;
  if (now - first_stall_ < kGatheringTicks * tick()) return;
  const auto [warning, abort] = options_.stalls;
  const bool is_over = abort != Duration::zero() && oldest_seconds >= whole_seconds(abort);
  const bool is_due =
      warning != Duration::zero() && oldest_seconds >= whole_seconds(warning) && now >= next_notice_;
  if (!is_over && !is_due) return;
  next_notice_ = now + warning;
  std::vector<StalledCall> calls = stalled_calls(now);
  for (StalledCall& call : calls) call.missing = missing_from(call);
  std::erase_if(calls, [](const StalledCall& call) { return call.missing.empty(); });
  outputs_.stalls.is_over = is_over && !calls.empty();
  outputs_.stalls.more_calls =
      pending_.size() > calls.size() && calls.size() >= kMostCalls ? pending_.size() - calls.size() : 0;
  outputs_.stalls.calls = std::move(calls);
}

bool Negotiator::is_stalled(const Key& key) const {
  return pending_.contains(key) || reported_.contains(key) || (key == Key::join() && !joined_.empty());
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
    reported.seconds = std::min(std::max(reported.seconds, call.seconds), kMostSeconds);
    reported.since = {};
    reported.made_by[child] = call.made_by;
  }
}

void Negotiator::ask(const Question& question) {
  relay(question);
}

void Negotiator::relay(const Question& question) {
  if (question.ranks.contains(tree_.rank())) outputs_.stalls.question = question;
  send_towards(question.ranks, encode(question));
}

/// To the children above some of these ranks.
void Negotiator::send_towards(const RankSet& ranks, const Bytes& message) {
  const std::vector<int> all = ranks.to_vector();
  for (std::size_t child = 0; child < tree_.children().size(); ++child) {
    const RankSet& subtree = tree_.subtree(child);
    if (std::ranges::any_of(all, [&](int rank) { return subtree.contains(rank); })) pass_down(child, message);
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
    asks_parent_ = true;
  }
}

}  // namespace hora
