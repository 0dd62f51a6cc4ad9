#pragma once

#include <string_view>

namespace hora {

/// Of this library, such as "0.3.0".
[[nodiscard]] std::string_view version();

}  // namespace hora
