#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/nccl/nccl_api.h"

namespace hora::nccl {

/// NCCL as it was found at run time.
struct NcclLibrary {
  std::shared_ptr<const Nccl> nccl;  ///< null where there is none
  int version = 0;                   ///< such as 22809 for 2.28.9
  std::string place;
  std::vector<std::string> features;  ///< functions that are used and that older versions lack
  std::string problem;                ///< otherwise: what is missing, and where it was looked for
};

/// Opens NCCL 2.19.3 or later. A copy that the program uses already comes before all others, because the
/// calls of two copies would be mixed up. `path` is that of the setting HORA_NCCL_LIBRARY, or empty;
/// `folders` are those of Python packages that bring NCCL.
[[nodiscard]] NcclLibrary open_nccl(const std::string& path, const std::vector<std::string>& folders);

/// "2.28.9".
[[nodiscard]] std::string describe_version(int version);

}  // namespace hora::nccl
