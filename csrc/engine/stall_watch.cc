#include "engine/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "core/rank_set.h"

namespace hora {
namespace {

// How long the ranks that are asked may take to answer, and the main thread of one of them.
constexpr auto kAnswerTime = std::chrono::seconds(1);
constexpr auto kStackTime = std::chrono::milliseconds(100);
// So many ranks are asked and described.
constexpr std::size_t kMostAsked = 64;
constexpr std::size_t kMostDescribed = 8;

std::string ranks_text(const RankSet& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", ranks.to_string());
}

std::string missing_text(const RankSet& missing, const std::map<int, int>& behind) {
  std::vector<int> certain = missing.to_vector();
  std::vector<int> unknown;
  std::ranges::copy_if(certain, std::back_inserter(unknown), [&](int rank) { return behind.contains(rank); });
  std::erase_if(certain, [&](int rank) { return behind.contains(rank); });
  if (unknown.empty()) return ranks_text(missing);
  const std::string perhaps = "perhaps " + ranks_text(RankSet(unknown));
  return certain.empty() ? perhaps : fmt::format("{} and {}", ranks_text(RankSet(certain)), perhaps);
}

std::string call_text(const StalledCall& call) {
  if (call.op == OpKind::kJoin) return "join";
  return fmt::format("{} {}", name(call.op), call.key.to_string());
}

std::string batch_text(const Batch& batch) {
  std::string text = fmt::format("{} {}", name(batch.signature().op), batch.entries.front().key.to_string());
  if (batch.entries.size() > 1) text += fmt::format(" and {} more", batch.entries.size() - 1);
  return text;
}

std::string indented(const std::string& text) {
  std::string result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    result += "\n    " + text.substr(begin, end - begin);
    begin = end + 1;
  }
  return result;
}

}  // namespace

StallWatch::StallWatch(const StallTimes& times, MainThreadStack stack, ParentOf parent_of, int rank,
                       Exchange& exchange, const ProcessSets& process_sets)
    : times_(times),
      stack_(std::move(stack)),
      parent_of_(std::move(parent_of)),
      rank_(rank),
      exchange_(exchange),
      process_sets_(process_sets) {}

Duration StallWatch::pause(const Doing& doing) const {
  if (times_.patience() == Duration::zero())
    return exchange_.awaits_callers() ? exchange_.tick() : Duration::max();
  return notice_ || doing.waits || doing.batch != nullptr || doing.on_device || exchange_.is_waiting()
             ? exchange_.tick()
             : Duration::max();
}

void StallWatch::look(TimePoint now, const Doing& doing) {
  if (now >= next_tick_ && pause(doing) != Duration::max()) {
    next_tick_ = now + exchange_.tick();
    exchange_.pass_time(now, doing.waits);
    if (times_.patience() != Duration::zero()) tell_of_batch(now, doing);
  }
  if (exchange_.stalls.is_empty() && !notice_) return;
  Negotiator::Stalls& stalls = exchange_.stalls;
  if (const auto question = std::exchange(stalls.question, std::nullopt)) answer(*question, doing);
  if (const auto parent = std::exchange(stalls.silent_parent, std::nullopt))
    tell_of_parent(*parent, stalls.silent_seconds);
  if (!notice_ && (!stalls.calls.empty() || !stalls.batches.empty())) begin_notice(now, stalls);
  for (Answer& each : std::exchange(stalls.answers, {})) {
    if (notice_ && each.question == questions_) notice_->answers[each.rank] = std::move(each);
  }
  if (!notice_) return;
  if (notice_->answers.size() == notice_->asked.size() || now >= notice_->deadline) end_notice();
}

/// All members of a batch tell of it; the root heeds the first.
void StallWatch::tell_of_batch(TimePoint now, const Doing& doing) {
  if (now < next_batch_report_) return;
  std::optional<LastingBatch> lasting;
  if (const auto& device = doing.on_device;
      device && device->begun && now - *device->begun >= times_.patience())
    lasting = {device->number, device->process_set, whole_seconds(now - *device->begun), device->what};
  if (doing.batch != nullptr && now - doing.begun >= times_.patience())
    lasting = {doing.batch->number, doing.batch->process_set(), whole_seconds(now - doing.begun),
               batch_text(*doing.batch)};
  if (!lasting) return;
  const Duration age = std::chrono::seconds(lasting->seconds);
  next_batch_report_ =
      now + (age < times_.abort ? std::min(times_.patience(), times_.abort - age) : times_.patience());
  exchange_.tell_of(*lasting);
}

/// A device begins with a batch long after it was launched.
void StallWatch::answer(const Question& question, const Doing& doing) {
  std::uint64_t batches = doing.batches;
  if (const auto& device = doing.on_device) batches = device->number + (device->begun ? 1 : 0);
  exchange_.answer(
      {question.number, rank_, batches, doing.batch != nullptr, stack_ ? stack_(kStackTime) : std::string()});
}

void StallWatch::begin_notice(TimePoint now, Negotiator::Stalls& stalls) {
  Notice notice{std::exchange(stalls.calls, {}),
                {},
                std::exchange(stalls.is_over, false),
                std::exchange(stalls.more_calls, 0),
                {},
                {},
                now + kAnswerTime};
  for (LastingBatch& batch : std::exchange(stalls.batches, {})) {
    if (!is_over(batch.seconds) && (now < next_batch_notice_ || is_early(batch.seconds))) continue;
    if (std::ranges::find(notice.batches, batch.number, &LastingBatch::number) != notice.batches.end())
      continue;
    notice.is_over = notice.is_over || is_over(batch.seconds);
    notice.batches.push_back(std::move(batch));
  }
  if (notice.calls.empty() && notice.batches.empty()) return;
  if (!notice.batches.empty()) next_batch_notice_ = now + times_.warning;
  notice.asked = suspects(notice);
  notice_ = std::move(notice);
  exchange_.ask({++questions_, RankSet(notice_->asked)});
}

bool StallWatch::is_over(std::uint64_t seconds) const {
  return times_.abort != Duration::zero() && seconds >= whole_seconds(times_.abort);
}

bool StallWatch::is_early(std::uint64_t seconds) const {
  return times_.warning == Duration::zero() || seconds < whole_seconds(times_.warning);
}

std::vector<int> StallWatch::suspects(const Notice& notice) const {
  RankSet ranks;
  for (const StalledCall& call : notice.calls) ranks.merge(call.missing);
  for (const LastingBatch& batch : notice.batches) {
    if (const RankList members = process_sets_.find(batch.process_set)) ranks.merge(RankSet(*members));
  }
  std::vector<int> asked = ranks.to_vector();
  if (asked.size() > kMostAsked) asked.resize(kMostAsked);
  // Those through which these answer, too: where one is silent, nothing is known of the ranks behind it.
  std::vector<int> all = asked;
  for (const int rank : asked) {
    for (std::optional<int> above = parent_of_(rank); above && *above != rank_; above = parent_of_(*above))
      all.push_back(*above);
  }
  return RankSet(std::move(all)).to_vector();
}

void StallWatch::end_notice() {
  Notice notice = std::exchange(notice_, std::nullopt).value();
  notice.behind = find_behind(notice);
  const std::string text = text_of(notice);
  log_warning(text);
  if (!notice.is_over) return;
  for (const StalledCall& call : notice.calls) {
    // It may have been made meanwhile.
    if (!is_over(call.seconds) || !exchange_.is_stalled(call.key)) continue;
    fail(call.missing.lowest(), fmt::format("stalled: {} has waited for {} for {} s", call_text(call),
                                            missing_text(call.missing, notice.behind), call.seconds));
  }
  if (notice.batches.empty()) return;
  std::vector<int> silent = notice.asked;
  std::erase_if(silent, [&](int rank) { return notice.answers.contains(rank); });
  fail(silent.empty() ? rank_ : silent.front(),
       fmt::format("stalled: {} has not ended for {} s", notice.batches.front().what,
                   notice.batches.front().seconds));
}

std::string StallWatch::text_of(const Notice& notice) const {
  std::string text = "stalled:";
  for (const StalledCall& call : notice.calls) {
    text += fmt::format("\n  {} has waited {} s for {}; made by {}", call_text(call), call.seconds,
                        missing_text(call.missing, notice.behind), ranks_text(call.made_by));
  }
  if (notice.more_calls > 0) text += fmt::format("\n  and {} more calls", notice.more_calls);
  for (const LastingBatch& batch : notice.batches)
    text += fmt::format("\n  {} was agreed {} s ago and has not ended", batch.what, batch.seconds);
  std::size_t described = 0;
  for (const int rank : notice.asked) {
    const std::string line = text_of_rank(rank, notice);
    if (!line.empty() && described++ < kMostDescribed) text += "\n  " + line;
  }
  if (described > kMostDescribed) text += fmt::format("\n  and {} more ranks", described - kMostDescribed);
  return text;
}

/// Each with the silent rank that is farthest from it.
std::map<int, int> StallWatch::find_behind(const Notice& notice) const {
  std::map<int, int> behind;
  const auto is_silent = [&](int rank) { return !notice.answers.contains(rank); };
  if (std::ranges::none_of(notice.asked, is_silent)) return behind;
  for (const int rank : notice.asked) {
    for (std::optional<int> above = parent_of_(rank); above && *above != rank_; above = parent_of_(*above)) {
      if (is_silent(*above)) behind[rank] = *above;
    }
  }
  return behind;
}

/// Empty for a rank that only waits for the others.
std::string StallWatch::text_of_rank(int rank, const Notice& notice) {
  if (const auto before = notice.behind.find(rank); before != notice.behind.end())
    return fmt::format("rank {} cannot be asked, because rank {} does not answer", rank, before->second);
  const auto found = notice.answers.find(rank);
  if (found == notice.answers.end())
    return fmt::format("rank {} does not answer: its process is stopped, or its host does not run it", rank);
  const Answer& answer = found->second;
  const auto misses = [rank](const StalledCall& call) { return call.missing.contains(rank); };
  const auto is_behind = [&](const LastingBatch& batch) { return answer.batches <= batch.number; };
  if (std::ranges::none_of(notice.calls, misses) && std::ranges::none_of(notice.batches, is_behind))
    return {};
  const char* const what = std::ranges::any_of(notice.batches, is_behind) ? "has not begun with it"
                           : answer.is_in_batch                           ? "is in another batch"
                                                                          : "has not made the call";
  return fmt::format("rank {} {}; its program is at{}", rank, what,
                     answer.where.empty() ? " a place that is not known" : indented(answer.where));
}

/// The root may be the one that is stopped; so this is told by whom it concerns.
void StallWatch::tell_of_parent(int parent, std::uint64_t seconds) {
  const std::string text = fmt::format(
      "stalled: rank {}, through which this rank agrees with the others, does not answer: its process is "
      "stopped, or its host does not run it",
      parent);
  if (is_over(seconds)) fail(parent, text);
  log_warning(text);
}

void StallWatch::fail(int rank, const std::string& reason) {
  exchange_.failure = Failure{rank, reason};
  raise(ErrorKind::kSessionFailed, "{}", reason);
}

}  // namespace hora
