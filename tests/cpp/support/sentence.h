#pragma once

#include <string>
#include <vector>

#include "base/table.h"

namespace hora::testing {

/// A sentence with the table below it that tells how ranks differ.
[[nodiscard]] inline std::string with_table(std::string sentence,
                                            const std::vector<std::vector<std::string>>& rows) {
  for (const std::string& line : aligned(rows)) sentence += "\n  " + line;
  return sentence;
}

/// What ranks are told that sent tensors of different shapes and nothing else. `rows`: ranks and shape.
[[nodiscard]] inline std::string shapes_differ(const std::string& call,
                                               std::vector<std::vector<std::string>> rows) {
  rows.insert(rows.begin(), {"ranks", "shape"});
  return with_table(call + ": ranks differ in shape", rows);
}

}  // namespace hora::testing
