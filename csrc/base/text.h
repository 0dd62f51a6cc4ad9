#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace hora {

/// "a, b, c".
template <typename Parts>
[[nodiscard]] std::string join(const Parts& parts, std::string_view separator) {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += separator;
    if constexpr (requires { text += part; } && !std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      text += part;
    } else {
      text += std::to_string(part);
    }
  }
  return text;
}

}  // namespace hora
