#include "transport/shm/heap.h"

#include <algorithm>
#include <iterator>

#include "transport/shm/layout.h"

namespace hora {

std::optional<std::size_t> Heap::take(std::size_t bytes) {
  const std::size_t length = std::max((bytes + kPage - 1) / kPage, std::size_t{1}) * kPage;
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(free_, [&](const auto& block) { return block.second >= length; });
  if (found == free_.end()) return std::nullopt;
  const auto [first, room] = *found;
  free_.erase(found);
  if (room > length) free_.emplace(first + length, room - length);
  taken_.emplace(first, length);
  return first;
}

void Heap::give_back(std::size_t first) {
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(first);
  auto block = free_.emplace(first, taken->second).first;
  taken_.erase(taken);
  const auto next = std::next(block);
  if (next != free_.end() && block->first + block->second == next->first) {
    block->second += next->second;
    free_.erase(next);
  }
  if (block == free_.begin()) return;
  const auto prev = std::prev(block);
  if (prev->first + prev->second != block->first) return;
  prev->second += block->second;
  free_.erase(block);
}

}  // namespace hora
