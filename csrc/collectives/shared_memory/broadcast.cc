#include <algorithm>

#include "collectives/shared_memory/shared_memory.h"

namespace hora {

/// The root copies block after block into its slots, as far ahead of the slowest reader as slots last; the
/// others copy them out.
void shared_broadcast(Slots& slots, const Pieces& pieces, int root, const Route& route) {
  const Store store = route.streaming ? Store::kStreaming : Store::kCached;
  const std::size_t block_count = block_bytes(slots, route, pieces.bytes()) / pieces.element_bytes();
  const std::size_t blocks = (pieces.count() + block_count - 1) / block_count;
  const std::uint32_t first_block = slots.take_blocks(blocks);
  const auto bytes = [&](std::size_t count) { return count * pieces.element_bytes(); };
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::uint32_t number = first_block + static_cast<std::uint32_t>(block);
    const std::size_t first = block * block_count;
    const std::size_t length = std::min(block_count, pieces.count() - first);
    if (slots.rank() == root) {
      std::byte* const to = slots.open(number).data();
      pieces.visit(first, length, [&](const std::byte* input, std::byte*, std::size_t at, std::size_t count) {
        copy(input, to + at, bytes(count), store);
      });
      slots.publish(number);
      pieces.visit(first, length,
                   [&](const std::byte* input, std::byte* output, std::size_t, std::size_t count) {
                     if (output != nullptr && output != input)
                       copy(input, output, bytes(count), Store::kCached);
                   });
    } else {
      const std::byte* const from = slots.await(root, number).data();
      pieces.visit(first, length,
                   [&](const std::byte*, std::byte* output, std::size_t at, std::size_t count) {
                     if (output != nullptr) copy(from + at, output, bytes(count), Store::kCached);
                   });
      slots.free_through(number);
    }
  }
}

}  // namespace hora
