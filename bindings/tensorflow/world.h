#pragma once

#include <cstdint>

#include "api/session.h"
#include "tensorflow_api.h"

namespace hora::tensorflow {

/// What a node that tells a number of the job says.
struct WorldAttributes {
  std::int64_t (*number)(const Session& session, std::int32_t process_set);
  std::int32_t process_set;
};

/// Throws Error for a number that is not known.
[[nodiscard]] WorldAttributes read_world_attributes(KernelConstruction& construction);

/// Makes the number, as it is now, the kernel's output.
void set_world_number(const WorldAttributes& attributes, KernelContext& context);

}  // namespace hora::tensorflow
