#include "ops/host_results.h"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "base/error.h"
#include "ops/numbers.h"

namespace hora {
namespace {

// Below this memory is there, or nothing works any more; and to ask the others costs little against the data.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20;

std::shared_ptr<std::byte[]> try_allocate(std::size_t bytes, Faults& faults) {
  if (faults.reach(FaultPoint::kInAllocation) == FaultAction::kFail) return nullptr;
  try {
    return std::make_shared_for_overwrite<std::byte[]>(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

void allocate_result(const HostCall& call, const OpTensor& tensor, std::size_t together) {
  Output& result = *tensor.result;
  if (together < kLargeBytes) {
    result.data = std::make_shared_for_overwrite<std::byte[]>(result.bytes());
    return;
  }
  result.data = try_allocate(result.bytes(), call.faults);
  const std::int64_t missing = result.data == nullptr ? static_cast<std::int64_t>(result.bytes()) + 1 : 0;
  const std::vector<std::int64_t> of_ranks = gather_numbers(call.group, missing);
  const auto first = std::ranges::find_if(of_ranks, [](std::int64_t bytes) { return bytes > 0; });
  if (first == of_ranks.end()) return;
  const BatchEntry& entry = call.batch.entries.front();
  raise(ErrorKind::kMismatch, "{} {}: rank {} has not got {} bytes of memory for its result",
        name(entry.signature->op), entry.key.to_string(),
        call.group.job_rank(static_cast<int>(first - of_ranks.begin())), *first - 1);
}

}  // namespace hora
