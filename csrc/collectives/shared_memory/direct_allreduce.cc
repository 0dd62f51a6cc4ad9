#include <algorithm>
#include <functional>
#include <vector>

#include "collectives/chunks.h"
#include "collectives/shared_memory/shared_memory.h"

namespace hora {

// Allreduce of memory that all ranks can reach. Every rank says where its tensors lie, which also says that
// their values are there; reduces its share of the elements straight from the inputs of all ranks into the
// outputs of all ranks; and says when it is through. No byte is copied: every rank reads and writes 1/n of
// all buffers, once.
namespace {

// Work between two looks at the rest of the session.
constexpr std::size_t kStrideBytes = 512 * 1024;

/// One tensor, everywhere.
struct Everywhere {
  std::vector<const std::byte*> inputs;  ///< by rank
  std::vector<std::byte*> outputs;
};

/// Whether two tensors share memory: then not every element has one rank that writes it.
bool overlap(std::span<const DirectTensor> tensors, std::size_t element) {
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    std::size_t tensor;
  };
  std::vector<Range> ranges;
  for (std::size_t number = 0; number < tensors.size(); ++number) {
    const DirectTensor& tensor = tensors[number];
    const std::size_t bytes = tensor.count * element;
    if (bytes == 0) continue;
    ranges.push_back({tensor.input, tensor.input + bytes, number});
    ranges.push_back({tensor.output, tensor.output + bytes, number});
  }
  std::ranges::sort(ranges, std::less<>(), &Range::begin);
  for (std::size_t at = 1; at < ranges.size(); ++at) {
    const Range& before = ranges[at - 1];
    const bool is_in_place = before.tensor == ranges[at].tensor && before.begin == ranges[at].begin;
    if (!is_in_place && std::less<>()(ranges[at].begin, before.end)) return true;
  }
  return false;
}

std::vector<std::int64_t> own_offsets(const Slots& slots, std::span<const DirectTensor> tensors,
                                      std::size_t element) {
  std::vector<std::int64_t> offsets;
  if (overlap(tensors, element)) offsets.resize(2 * tensors.size(), HostMemory::kElsewhere);
  for (std::size_t number = 0; offsets.size() < 2 * tensors.size(); ++number) {
    const DirectTensor& tensor = tensors[number];
    offsets.push_back(slots.offset_of(tensor.input, tensor.count * element));
    offsets.push_back(slots.offset_of(tensor.output, tensor.count * element));
  }
  return offsets;
}

Everywhere find(const Slots& slots, std::span<const std::int64_t> offsets, std::size_t tensor,
                std::size_t tensors, std::size_t bytes) {
  Everywhere found;
  for (int rank = 0; rank < slots.size(); ++rank) {
    const std::size_t at = (static_cast<std::size_t>(rank) * tensors + tensor) * 2;
    found.inputs.push_back(slots.memory_at(rank, offsets[at], bytes));
    found.outputs.push_back(slots.memory_at(rank, offsets[at + 1], bytes));
  }
  return found;
}

/// Reduces `count` elements from element `first` on, everywhere.
void reduce_run(const Slots& slots, const Everywhere& tensor, std::size_t first, std::size_t count,
                const Reduction& reduction) {
  const std::size_t element = size_of(reduction.dtype);
  std::vector<const std::byte*> sources(tensor.inputs.size());
  std::vector<Destination> destinations(tensor.outputs.size());
  for (const std::size_t stride = kStrideBytes / element; count > 0;) {
    const std::size_t length = std::min(stride, count);
    for (std::size_t rank = 0; rank < sources.size(); ++rank) {
      sources[rank] = tensor.inputs[rank] + first * element;
      destinations[rank] = {tensor.outputs[rank] + first * element};
    }
    reduce_all(sources, destinations, length, reduction);
    slots.look_around();
    first += length;
    count -= length;
  }
}

}  // namespace

bool direct_allreduce(Slots& slots, std::span<const DirectTensor> tensors, const Reduction& reduction) {
  const std::size_t element = size_of(reduction.dtype);
  const std::vector<std::int64_t> offsets = shared_exchange(slots, own_offsets(slots, tensors, element));
  if (std::ranges::find(offsets, HostMemory::kElsewhere) != offsets.end()) return false;

  std::size_t total = 0;
  for (const DirectTensor& tensor : tensors) total += tensor.count;
  // Shares end at cache lines where the tensors begin at one.
  const std::size_t line = kLine / element;
  const Chunks lines((total + line - 1) / line, slots.size());
  const std::size_t begin = std::min(lines.first(slots.rank()) * line, total);
  const std::size_t end = std::min(lines.first(slots.rank() + 1) * line, total);
  std::size_t first = 0;  // of the tensor among all elements
  for (std::size_t number = 0; number < tensors.size(); ++number) {
    const std::size_t count = tensors[number].count;
    const std::size_t from = std::clamp(begin, first, first + count);
    const std::size_t to = std::clamp(end, first, first + count);
    if (from < to) {
      const Everywhere tensor = find(slots, offsets, number, tensors.size(), count * element);
      reduce_run(slots, tensor, from - first, to - from, reduction);
    }
    first += count;
  }

  const std::uint32_t through = slots.take_blocks(1);
  slots.publish_reduced(through);
  for (int peer = 0; peer < slots.size(); ++peer) {
    if (peer != slots.rank()) static_cast<void>(slots.await_reduced(peer, through));
  }
  slots.free_through(through);
  slots.had_no_route();
  return true;
}

}  // namespace hora
