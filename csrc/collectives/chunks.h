#pragma once

#include <algorithm>
#include <cstddef>

namespace hora {

/// Cuts `count` elements into `parts` runs whose lengths differ by one at most, longer runs first.
class Chunks {
 public:
  Chunks(std::size_t count, int parts)
      : base_(count / static_cast<std::size_t>(parts)), longer_(count % static_cast<std::size_t>(parts)) {}

  [[nodiscard]] std::size_t first(int part) const {
    const auto number = static_cast<std::size_t>(part);
    return number * base_ + std::min(number, longer_);
  }
  [[nodiscard]] std::size_t length(int part) const { return first(part + 1) - first(part); }

 private:
  std::size_t base_;
  std::size_t longer_;
};

}  // namespace hora
