#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collectives/shared_memory/pieces.h"

namespace hora::testing {

// What ranks that share memory hand each other in tests.

inline constexpr std::size_t kSlotBytes = 4096;

using Values = std::vector<float>;

inline float value_of(int rank, std::size_t index) {
  return static_cast<float>((index * 7 + static_cast<std::size_t>(rank) * 31) % 1000);
}

inline Values values_of(int rank, std::size_t count) {
  Values values(count);
  for (std::size_t at = 0; at < count; ++at) values[at] = value_of(rank, at);
  return values;
}

inline std::byte* bytes_of(Values& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

/// The vector cut into tensors of one to `longest` elements.
inline Pieces pieces_of(const Values* input, Values* output, std::size_t count, std::size_t longest) {
  Pieces pieces(sizeof(float));
  std::size_t length = 1;
  for (std::size_t at = 0; at < count; at += length, length = length * 3 % longest + 1) {
    length = std::min(length, count - at);
    pieces.add(input == nullptr ? nullptr : reinterpret_cast<const std::byte*>(input->data() + at),
               output == nullptr ? nullptr : reinterpret_cast<std::byte*>(output->data() + at), length);
  }
  return pieces;
}

}  // namespace hora::testing
