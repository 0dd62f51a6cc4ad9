#pragma once

#include <cstdint>

namespace hora {

/// How a batch moves its data: decided by the root, the same on all ranks.
struct Route {
  enum class Reduction : std::uint8_t {
    kOnePhase,  ///< everyone reduces everything
    kTwoPhase,  ///< everyone reduces a slice, and reads the others'
  };
  /// How allreduce goes between ranks that do not share memory.
  enum class Across : std::uint8_t { kRing, kDoubling };
  static constexpr std::uint32_t kLeastBlockBytes = 64;

  Reduction reduction = Reduction::kTwoPhase;
  bool streaming = false;                ///< blocks are written past the caches
  std::uint32_t block_bytes = 1u << 18;  ///< of a rank at a time

  Across across = Across::kRing;
  std::uint32_t across_bytes = 60 * 1024;  ///< largest message between hosts

  bool operator==(const Route&) const = default;
};

}  // namespace hora
