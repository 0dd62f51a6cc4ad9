#pragma once

#include <string>
#include <vector>

#include "base/config.h"

namespace hora {

/// What becomes of those variables of Horovod that are set.
struct HorovodVariables {
  std::vector<std::string> used;             ///< read in place of a setting of ours, which is named too
  std::vector<std::string> without_meaning;  ///< what they control does not exist here, or ours is set too

  /// Both in one line.
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] HorovodVariables find_horovod_variables(const Environment& environment);

}  // namespace hora
