#include <algorithm>
#include <cstring>

#include "collectives/shared_memory/shared_memory.h"

namespace hora {

/// Every rank copies its part block by block into its slots, and after each of its own blocks reads one of
/// each other rank, beginning with the next one, so that not all read the same slot at once. Ranks with less
/// to give have empty blocks at the end.
void shared_allgather(Slots& slots, std::span<std::byte> data, std::span<const std::size_t> bounds,
                      const Route& route) {
  const Store store = route.streaming ? Store::kStreaming : Store::kCached;
  const std::size_t block = block_bytes(slots, route, bounds.back());
  const auto part = [&](int rank, std::size_t number) {
    const auto at = static_cast<std::size_t>(rank);
    const std::size_t first = std::min(bounds[at] + number * block, bounds[at + 1]);
    return data.subspan(first, std::min(block, bounds[at + 1] - first));
  };
  std::size_t longest = 0;
  for (std::size_t rank = 0; rank + 1 < bounds.size(); ++rank)
    longest = std::max(longest, bounds[rank + 1] - bounds[rank]);
  const std::size_t blocks = (longest + block - 1) / block;
  const std::uint32_t first_block = slots.take_blocks(blocks);
  for (std::size_t step = 0; step <= blocks; ++step) {
    if (step < blocks) {
      const std::uint32_t number = first_block + static_cast<std::uint32_t>(step);
      const std::span<const std::byte> own = part(slots.rank(), step);
      copy(own.data(), slots.open(number).data(), own.size(), store);
      slots.publish(number);
    }
    if (step == 0) continue;
    const std::uint32_t number = first_block + static_cast<std::uint32_t>(step - 1);
    for (int next = 1; next < slots.size(); ++next) {
      const int peer = (slots.rank() + next) % slots.size();
      const std::span<std::byte> to = part(peer, step - 1);
      copy(slots.await(peer, number).data(), to.data(), to.size(), Store::kCached);
    }
    slots.free_through(number);
  }
}

std::vector<std::int64_t> shared_exchange(Slots& slots, std::span<const std::int64_t> own) {
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(slots.size()));
  if (own.size_bytes() <= Slots::kNoteBytes) {
    slots.exchange_notes(std::as_bytes(own), std::as_writable_bytes(std::span(all)));
    return all;
  }
  std::ranges::copy(own, all.begin() + static_cast<std::ptrdiff_t>(own.size()) * slots.rank());
  std::vector<std::size_t> bounds;
  for (std::size_t rank = 0; rank <= static_cast<std::size_t>(slots.size()); ++rank)
    bounds.push_back(rank * own.size_bytes());
  shared_allgather(slots, std::as_writable_bytes(std::span(all)), bounds, {});
  return all;
}

}  // namespace hora
