#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace hora {

/// "a, b, c".
template <typename Parts>
[[nodiscard]] std::string join(const Parts& parts, std::string_view separator) {
  std::string text;
  bool is_first = true;
  for (const auto& part : parts) {
    if (!is_first) text += separator;
    is_first = false;
    if constexpr (requires { text += part; } && !std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      text += part;
    } else {
      text += std::to_string(part);
    }
  }
  return text;
}

/// What a field of another process holds up to its first zero byte, which may be missing.
template <std::size_t kSize>
[[nodiscard]] std::string text_in(const std::array<char, kSize>& field) {
  return {field.data(), strnlen(field.data(), kSize)};
}

}  // namespace hora
