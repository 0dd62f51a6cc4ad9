#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hora {

/// A number that texts which differ share only by an improbable accident, the same in every process (FNV-1a).
[[nodiscard]] inline std::uint64_t hash_of(std::span<const std::string_view> texts) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const std::string_view text : texts) {
    for (const char byte : text) add(static_cast<unsigned char>(byte));
    add(0);
  }
  return hash;
}

}  // namespace hora
