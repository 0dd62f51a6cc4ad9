#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/ops.h"

namespace hora {

void check_nothing(const Submission&, const std::vector<int>&) {}

void check_process_set(const Submission& submission, const std::vector<int>& members) {
  const std::vector<int>& ranks = submission.request.signature.ranks;
  if (ranks.empty()) raise(ErrorKind::kInvalidArgument, "a process set needs at least one rank");
  for (const int rank : ranks) {
    if (!std::ranges::binary_search(members, rank)) {
      raise(ErrorKind::kInvalidArgument, "rank {} is not one of the ranks 0 to {}", rank, members.back());
    }
  }
}

}  // namespace hora
