#include <algorithm>
#include <functional>
#include <vector>

#include "base/error.h"
#include "ops/ops.h"

namespace hora {

void check_nothing(const Submission&, const std::vector<int>&) {}

void check_process_set(const Submission& submission, const std::vector<int>& members) {
  const std::vector<int>& ranks = submission.request.signature.ranks;
  if (ranks.empty()) raise(ErrorKind::kInvalidArgument, "a process set needs at least one rank");
  if (!std::ranges::is_sorted(ranks, std::less_equal<>()))
    raise(ErrorKind::kInvalidArgument, "the ranks of a process set must be ascending, each once");
  for (const int rank : ranks) {
    if (!std::ranges::binary_search(members, rank)) {
      raise(ErrorKind::kInvalidArgument, "rank {} is not one of the ranks 0 to {}", rank, members.back());
    }
  }
}

}  // namespace hora
