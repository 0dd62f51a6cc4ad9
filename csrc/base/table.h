#pragma once

#include <string>
#include <vector>

namespace hora {

/// The lines of a table whose columns stand below each other, two spaces apart.
[[nodiscard]] std::vector<std::string> aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace hora
