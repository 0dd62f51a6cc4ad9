#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

namespace hora {

/// Shares out a range of addresses in whole pages, lowest first; knows nothing of the memory behind it.
///
/// Lock map: everything -> mutex_.
class Heap {
 public:
  Heap(std::size_t first, std::size_t bytes) { free_.emplace(first, bytes); }

  /// Where a block of at least so many bytes begins; nothing when there is no room.
  [[nodiscard]] std::optional<std::size_t> take(std::size_t bytes);
  /// Gives back a block that `take` returned.
  void give_back(std::size_t first);

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;   // lengths by first byte; no two adjacent
  std::map<std::size_t, std::size_t> taken_;  // lengths by first byte
};

}  // namespace hora
