#include "ops/device_results.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/numbers.h"

namespace hora {
namespace {

/// Bytes that could not be had.
std::int64_t allocate_what_can_be(const DeviceCall& call) {
  std::int64_t missing = 0;
  for (const OpTensor& tensor : call.tensors) {
    Output& result = *tensor.result;
    result.data = call.lane.allocate(result.bytes());
    if (result.data == nullptr) missing += static_cast<std::int64_t>(result.bytes());
  }
  return missing;
}

}  // namespace

bool unmark_rows(std::vector<std::int64_t>& told) {
  const bool is_reserved = are_equal(told) && told.front() % 2 == 1;
  for (std::int64_t& rows : told) rows >>= 1;
  return is_reserved;
}

void allocate_results(const DeviceCall& call, bool is_reserved) {
  const std::int64_t missing = allocate_what_can_be(call);
  if (is_reserved && missing == 0) return;
  const BatchEntry& entry = call.batch.entries.front();
  if (is_reserved) {
    raise(ErrorKind::kSessionFailed, "{} {}: {} bytes that were put aside are missing",
          name(entry.signature->op), entry.key.to_string(), missing);
  }
  const std::vector<std::int64_t> of_ranks = gather_numbers(call.group, missing);
  const auto first = std::ranges::find_if(of_ranks, [](std::int64_t bytes) { return bytes > 0; });
  if (first == of_ranks.end()) return;
  raise(ErrorKind::kMismatch, "{} {}: rank {} has not got {} bytes of GPU memory for its result",
        name(entry.signature->op), entry.key.to_string(),
        call.group.job_rank(static_cast<int>(first - of_ranks.begin())), *first);
}

}  // namespace hora
