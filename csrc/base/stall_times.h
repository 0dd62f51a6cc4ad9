#pragma once

#include <algorithm>

#include "base/clock.h"

namespace hora {

/// When it is told that something stands still. Zero: never.
struct StallTimes {
  Duration warning{};  ///< and again after as much time
  Duration abort{};    ///< then the job fails

  /// How long nothing is said of it. Zero: for ever.
  [[nodiscard]] Duration patience() const {
    if (warning == Duration::zero() || abort == Duration::zero()) return std::max(warning, abort);
    return std::min(warning, abort);
  }
};

}  // namespace hora
