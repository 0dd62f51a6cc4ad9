#include "negotiation/plausible.h"

#include "base/error.h"

namespace hora {
namespace {

/// A change of process sets that no rank has refused names ranks of this job.
void require_plausible(const Signature& signature, std::int32_t process_set, int job_size) {
  if (signature.op != OpKind::kAddProcessSet && signature.op != OpKind::kRemoveProcessSet) return;
  if (!signature.refusal.empty()) return;
  if (process_set != kGlobalSet || signature.ranks.empty() || signature.ranks.back() >= job_size)
    raise(ErrorKind::kSessionFailed, "{} of the ranks {} in process set {}", name(signature.op),
          RankSet(signature.ranks).to_string(), process_set);
}

void require_plausible(const Batch& batch, int members, int job_size) {
  if (!batch.error.empty()) return;
  const Signature& signature = batch.signature();
  if (signature.op == OpKind::kJoin) {
    if (batch.value < 0 || batch.value >= job_size)
      raise(ErrorKind::kSessionFailed, "rank {} of {} joined last", batch.value, job_size);
    return;
  }
  require_plausible(signature, batch.process_set(), job_size);
  const auto is_count = [members](int count) { return count >= 1 && count <= members; };
  if (!is_count(batch.contributors) || !is_count(batch.divisor) || batch.piece_bytes == 0)
    raise(ErrorKind::kSessionFailed, "{} of {} contribute, divided by {}, in pieces of {} bytes",
          batch.contributors, members, batch.divisor, batch.piece_bytes);
}

}  // namespace

void require_below(const RankSet& ranks, const RankSet& below) {
  if (!ranks.empty() && ranks.highest() > below.highest())
    raise(ErrorKind::kSessionFailed, "it speaks for rank {}, which is not below it", ranks.highest());
}

void require_plausible(const Announcement& announcement, const RankSet& below, int members, int job_size) {
  if (members == 0 || announcement.contributors.size() > members)
    raise(ErrorKind::kSessionFailed, "{} ranks below it announced {}, of {}",
          announcement.contributors.size(), announcement.key.to_string(), members);
  require_below(announcement.contributors, below);
  for (const Variant& variant : announcement.variants) {
    require_below(variant.ranks, below);
    require_plausible(variant.signature, announcement.key.process_set, job_size);
    if (variant.signature.op == OpKind::kJoin)
      raise(ErrorKind::kSessionFailed, "a join that was announced as a call");
  }
}

void require_plausible(const Plan& plan, const Members& members, int job_size) {
  const auto size = static_cast<int>(members.ranks().size());
  for (const Batch& batch : plan.batches) require_plausible(batch, size, job_size);
  if (plan.departure && plan.departure->rank >= job_size)
    raise(ErrorKind::kSessionFailed, "rank {} of {} leaves", plan.departure->rank, job_size);
}

}  // namespace hora
