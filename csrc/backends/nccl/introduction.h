#pragma once

#include <cstddef>
#include <string>

#include "backends/cuda/device.h"
#include "backends/nccl/nccl_api.h"
#include "transport/group.h"

namespace hora::nccl {

/// What a rank tells the others of its process set before they make a communicator.
struct Introduction {
  int version = 0;                ///< of NCCL
  std::size_t staging_bytes = 0;  ///< that it can have
  bool has_kernels = false;
};

/// What all agree on then.
struct Agreement {
  UniqueId id{};
  std::size_t staging_bytes = 0;  ///< the least of all
  bool have_kernels = false;      ///< all
};

/// Exchanges introductions; the first rank of the group brings the unique id. Collective over the group.
/// Throws Error(kSessionFailed), on all ranks alike, where versions of NCCL differ or ranks share a device:
/// NCCL could only hang or fail without saying who.
[[nodiscard]] Agreement introduce(const Group& group, const Nccl& nccl, const cuda::Device& device,
                                  const Introduction& own);

}  // namespace hora::nccl
