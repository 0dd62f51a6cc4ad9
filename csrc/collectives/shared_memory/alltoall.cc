#include <algorithm>

#include "collectives/shared_memory/shared_memory.h"

namespace hora {

/// A slot has a section for each receiver. Every rank fills its sections block by block and then takes its
/// own section out of the slots of all others; the longest message of any pair decides how many blocks there
/// are. What a rank sends to itself is copied at once.
void shared_alltoall(Slots& slots, std::span<const std::byte> source, std::span<std::byte> destination,
                     std::span<const std::size_t> bytes, const Route& route) {
  const Store store = route.streaming ? Store::kStreaming : Store::kCached;
  const auto size = static_cast<std::size_t>(slots.size());
  const auto own = static_cast<std::size_t>(slots.rank());
  const std::size_t section = slots.block_bytes() / size / kLine * kLine;
  const auto between = [&](std::size_t from, std::size_t to) { return bytes[from * size + to]; };

  std::vector<std::size_t> sent{0};
  std::vector<std::size_t> received{0};
  std::size_t longest = 0;
  for (std::size_t peer = 0; peer < size; ++peer) {
    sent.push_back(sent.back() + between(own, peer));
    received.push_back(received.back() + between(peer, own));
    for (std::size_t to = 0; to < size; ++to)
      if (to != peer) longest = std::max(longest, between(peer, to));
  }
  copy(source.data() + sent[own], destination.data() + received[own], between(own, own), Store::kCached);

  const std::size_t blocks = (longest + section - 1) / section;
  const std::uint32_t first_block = slots.take_blocks(blocks);
  // What a block carries of a message: its first byte and how many.
  const auto cut = [&](std::size_t block, std::size_t length) {
    const std::size_t first = std::min(block * section, length);
    return std::pair(first, std::min(section, length - first));
  };
  for (std::size_t step = 0; step <= blocks; ++step) {
    if (step < blocks) {
      const std::uint32_t number = first_block + static_cast<std::uint32_t>(step);
      std::byte* const slot = slots.open(number).data();
      for (std::size_t to = 0; to < size; ++to) {
        if (to == own) continue;
        const auto [first, length] = cut(step, between(own, to));
        copy(source.data() + sent[to] + first, slot + to * section, length, store);
      }
      slots.publish(number);
    }
    if (step == 0) continue;
    const std::uint32_t number = first_block + static_cast<std::uint32_t>(step - 1);
    for (std::size_t next = 1; next < size; ++next) {
      const std::size_t from = (own + next) % size;
      const std::byte* const slot = slots.await(static_cast<int>(from), number).data();
      const auto [first, length] = cut(step - 1, between(from, own));
      copy(slot + own * section, destination.data() + received[from] + first, length, Store::kCached);
    }
    slots.free_through(number);
  }
}

}  // namespace hora
