#include "transport/shm/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"

namespace hora {

HostMemory::HostMemory(Segment segment, HostLayout layout, int rank, std::vector<HostMember> members,
                       Descriptor kept)
    : shared_(new Shared{std::move(segment), {layout.heap(index(rank)), layout.heap_bytes}}),
      data_(shared_->segment.data()),
      layout_(layout),
      rank_(rank),
      kept_(std::move(kept)) {
  for (HostMember& member : members) {
    const auto number = static_cast<int>(bells_.size());
    bells_.push_back(std::move(member.bell));
    if (number != rank) watch_.add(number, std::move(member.process));
  }
}

void HostMemory::close_in_child() {
  bells_.clear();
  watch_.close();
  kept_ = Descriptor();
  shared_->segment.close_file();
}

std::shared_ptr<std::byte[]> HostMemory::allocate(std::size_t bytes) const {
  const std::optional<std::size_t> first = shared_->heap.take(bytes);
  if (!first)
    raise(ErrorKind::kStartup, "no {} bytes of shared memory are left of {} (HORA_SHARED_HEAP_BYTES)", bytes,
          layout_.heap_bytes);
  const auto give_back = [shared = shared_, at = *first](std::byte*) { shared->heap.give_back(at); };
  std::shared_ptr<std::byte[]> memory(data_ + *first, give_back);
  shared_->segment.reserve(*first, std::max(bytes, std::size_t{1}));
  return memory;
}

std::int64_t HostMemory::offset_of(const std::byte* memory, std::size_t bytes) const {
  const std::byte* const heap = data_ + layout_.heap(index(rank_));
  const std::less_equal<const std::byte*> not_after;
  const bool is_within = not_after(heap, memory) && not_after(memory + bytes, heap + layout_.heap_bytes);
  return is_within ? memory - data_ : kElsewhere;
}

std::byte* HostMemory::memory_at(int rank, std::int64_t offset, std::size_t bytes) const {
  const auto first = static_cast<std::size_t>(offset);
  const std::size_t heap = layout_.heap(index(rank));
  if (offset < 0 || first < heap || bytes > layout_.heap_bytes || first - heap > layout_.heap_bytes - bytes)
    raise(ErrorKind::kSessionFailed, "damaged message: offset {} is not in the heap of rank {} of this host",
          offset, rank);
  return data_ + first;
}

}  // namespace hora
