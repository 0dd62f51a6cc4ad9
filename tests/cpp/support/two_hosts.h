#pragma once

#include "support/virtual_job.h"

namespace hora::testing {

/// Five ranks on two hosts: 0 is the parent of 1, 2 and 3, which is the parent of 4.
inline const JobShape kTwoHosts{{3, 2}, 16};

inline void submit_everywhere(VirtualJob& job, const Request& request) {
  for (int rank = 0; rank < job.size(); ++rank) job.submit(rank, request);
}

}  // namespace hora::testing
