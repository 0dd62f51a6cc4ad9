// Where the ranks that disagree about a call made it. They are asked only then, so that calls on which all
// agree cost nothing.

#include <chrono>
#include <utility>

#include "negotiation/mismatch.h"
#include "negotiation/negotiator.h"

namespace hora {
namespace {

// How long the ranks that are asked may take to answer; then the error comes without.
constexpr auto kAnswerTime = std::chrono::seconds(1);

}  // namespace

void Negotiator::ask_for_callers(BatchEntry entry, std::vector<Variant> variants) {
  entry.id = 0;
  const std::uint32_t number = ++disagreement_;
  const CallerQuestion question{number, entry.key, ranks_to_ask(variants)};
  Disagreement& disagreement = disagreements_[number];
  disagreement.entry = std::move(entry);
  disagreement.variants = std::move(variants);
  disagreement.asked = question.ranks;
  relay(question);
}

void Negotiator::relay(const CallerQuestion& question) {
  send_towards(question.ranks, encode(question));
  if (question.ranks.contains(tree_.rank()))
    on_caller({question.number, tree_.rank(), options_.caller_of(question.key)});
}

/// One that comes too late is forgotten.
void Negotiator::on_caller(CallerAnswer answer) {
  if (!tree_.is_root()) {
    outputs_.messages.push_back({*tree_.parent(), encode(answer)});
    return;
  }
  const auto found = disagreements_.find(answer.question);
  if (found == disagreements_.end()) return;
  auto& [entry, variants, asked, callers, since] = found->second;
  if (!asked.contains(answer.rank)) return;
  callers[answer.rank] = std::move(answer.where);
  if (std::cmp_equal(callers.size(), asked.size())) end_disagreement(found);
}

void Negotiator::end_late_disagreements(TimePoint now) {
  for (auto each = disagreements_.begin(); each != disagreements_.end();) {
    TimePoint& since = each->second.since;
    if (since == TimePoint()) since = now;
    each = now - since < kAnswerTime ? std::next(each) : end_disagreement(each);
  }
}

void Negotiator::end_disagreements() {
  while (!disagreements_.empty()) end_disagreement(disagreements_.begin());
}

/// Its error is ready.
Negotiator::Disagreements::iterator Negotiator::end_disagreement(Disagreements::iterator found) {
  Disagreement& disagreement = found->second;
  std::erase_if(disagreement.callers, [](const auto& caller) { return caller.second.empty(); });
  Batch batch;
  batch.error = describe_mismatch(disagreement.entry.key, disagreement.variants, disagreement.callers);
  batch.entries.push_back(std::move(disagreement.entry));
  errors_.push_back(std::move(batch));
  return disagreements_.erase(found);
}

}  // namespace hora
