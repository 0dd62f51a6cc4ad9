#include <algorithm>
#include <vector>

#include "collectives/shared_memory/shared_memory.h"

namespace hora {

/// A slot has a section for each rank. Every rank copies what it has for the others into their sections,
/// block by block, and reduces what all have for it, in the order of ranks, straight from their slots into
/// its output. The longest part decides how many blocks there are.
void shared_reduce_scatter(Slots& slots, std::span<const Pieces> parts, const Reduction& reduction,
                           bool all_contribute, const Route& route) {
  constexpr std::byte kPresent{1};
  constexpr std::byte kAbsent{2};
  const Store store = route.streaming ? Store::kStreaming : Store::kCached;
  const int own = slots.rank();
  const std::size_t element = parts.front().element_bytes();
  const std::size_t section = slots.block_bytes() / parts.size() / kLine * kLine;
  const std::size_t section_count = section / element;
  std::size_t longest = 0;
  for (const Pieces& part : parts) longest = std::max(longest, part.count());
  const std::size_t blocks = (longest + section_count - 1) / section_count;
  const std::uint32_t first_block = slots.take_blocks(blocks);
  const auto cut = [&](const Pieces& part, std::size_t block) {
    const std::size_t first = std::min(block * section_count, part.count());
    return std::pair(first, std::min(section_count, part.count() - first));
  };

  const auto fill = [&](std::size_t block, std::uint32_t number) {
    std::byte* const slot = slots.open(number).data();
    bool is_absent = false;
    for (int owner = 0; owner < slots.size(); ++owner) {
      if (owner == own) continue;
      const Pieces& part = parts[static_cast<std::size_t>(owner)];
      const auto [first, length] = cut(part, block);
      std::byte* const to = slot + static_cast<std::size_t>(owner) * section;
      part.visit(first, length, [&](const std::byte* input, std::byte*, std::size_t at, std::size_t count) {
        is_absent |= input == nullptr;
        if (input != nullptr) copy(input, to + at, count * element, store);
      });
    }
    if (!all_contribute) slots.remark(own, number) = is_absent ? kAbsent : kPresent;
    slots.publish(number);
  };

  std::vector<const std::byte*> peers;
  std::vector<const std::byte*> sources;
  const auto reduce = [&](std::size_t block, std::uint32_t number) {
    peers.clear();
    for (int peer = 0; peer < slots.size(); ++peer) {
      if (peer == own) {
        peers.push_back(nullptr);
        continue;
      }
      const std::byte* const slot = slots.await(peer, number).data();
      if (all_contribute || slots.remark(peer, number) != kAbsent)
        peers.push_back(slot + static_cast<std::size_t>(own) * section);
    }
    const Pieces& part = parts[static_cast<std::size_t>(own)];
    const auto [first, length] = cut(part, block);
    part.visit(first, length,
               [&](const std::byte* input, std::byte* output, std::size_t at, std::size_t count) {
                 if (output == nullptr) return;
                 sources.clear();
                 for (const std::byte* const peer : peers) {
                   if (peer != nullptr) {
                     sources.push_back(peer + at);
                   } else if (input != nullptr) {
                     sources.push_back(input);
                   }
                 }
                 const Destination result{output};
                 reduce_all(sources, {&result, 1}, count, reduction);
               });
    slots.free_through(number);
  };

  for (std::size_t step = 0; step <= blocks; ++step) {
    if (step < blocks) fill(step, first_block + static_cast<std::uint32_t>(step));
    if (step >= 1) reduce(step - 1, first_block + static_cast<std::uint32_t>(step - 1));
  }
}

}  // namespace hora
