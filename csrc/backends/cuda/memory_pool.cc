#include "backends/cuda/memory_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"

namespace hora::cuda {
namespace {

constexpr std::size_t kLeastBytes = 512;
constexpr std::size_t kCoarseBytes = std::size_t{2} << 20;

/// Small blocks in powers of two, large ones in steps of 2 MiB, so that similar sizes use the same blocks.
std::size_t rounded(std::size_t bytes) {
  if (bytes <= kCoarseBytes) return std::bit_ceil(std::max(bytes, kLeastBytes));
  return (bytes + kCoarseBytes - 1) / kCoarseBytes * kCoarseBytes;
}

/// The smallest that fits, so that each of several results of known sizes gets one.
std::optional<MemoryPool::Block> take_reserve(std::size_t bytes,
                                              std::span<const MemoryPool::Reserve> reserves) {
  MemoryPool::Block* best = nullptr;
  for (const MemoryPool::Reserve& each : reserves) {
    if (each == nullptr || each->memory == nullptr || each->bytes < bytes) continue;
    if (best == nullptr || each->bytes < best->bytes) best = each.get();
  }
  if (best == nullptr) return std::nullopt;
  return std::exchange(*best, {});
}

DevicePointer to_pointer(const std::byte* memory) {
  return reinterpret_cast<DevicePointer>(memory);
}

}  // namespace

MemoryPool::~MemoryPool() {
  trim();
}

std::shared_ptr<std::byte[]> MemoryPool::allocate(std::size_t bytes, Consumer consumer,
                                                  std::span<const Reserve> reserves) {
  const std::size_t wanted = rounded(bytes);
  const DeviceScope scope(*device_);
  std::optional<Block> block = take_reserve(wanted, reserves);
  if (!block) block = take(wanted);
  if (!block) {
    was_short_ = true;
    return nullptr;
  }
  if (block->used) {
    check(device_->driver(), device_->driver().stream_wait_event(device_->stream(), block->used.get(), 0),
          "cuStreamWaitEvent");
    block->used.reset();
  }
  return {block->memory, [pool = shared_from_this(), taken = *block,
                          consumer = std::move(consumer)](std::byte*) { pool->give_back(taken, consumer); }};
}

MemoryPool::Reserve MemoryPool::reserve(std::size_t bytes) {
  const DeviceScope scope(*device_);
  std::optional<Block> block = take(rounded(bytes));
  if (!block) return nullptr;
  return {new Block(std::move(*block)), [pool = shared_from_this()](Block* reserved) {
            const std::unique_ptr<Block> own(reserved);
            if (own->memory != nullptr) pool->put_back(std::move(*own));
          }};
}

std::optional<MemoryPool::Block> MemoryPool::take(std::size_t bytes) {
  sort_returned();
  if (std::optional<Block> spare = take_spare(bytes)) return spare;
  std::byte* const memory = ask_driver(bytes);
  if (memory == nullptr) return std::nullopt;
  return Block{.memory = memory, .bytes = bytes, .used = nullptr};
}

/// The smallest that fits and is not much too large.
std::optional<MemoryPool::Block> MemoryPool::take_spare(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto best = spare_.end();
  for (auto each = spare_.begin(); each != spare_.end(); ++each) {
    if (each->bytes < bytes || each->bytes > 2 * bytes) continue;
    if (best == spare_.end() || each->bytes < best->bytes) best = each;
  }
  if (best == spare_.end()) return std::nullopt;
  Block block = std::move(*best);
  spare_.erase(best);
  return block;
}

/// Null when there is not enough.
std::byte* MemoryPool::ask_driver(std::size_t bytes) {
  DevicePointer pointer = 0;
  const Driver& cuda = device_->driver();
  Result result = cuda.memory_allocate(&pointer, bytes);
  if (result == Result::kOutOfMemory) {
    trim();
    result = cuda.memory_allocate(&pointer, bytes);
  }
  if (result == Result::kOutOfMemory) return nullptr;
  check(cuda, result, "cuMemAlloc");
  return reinterpret_cast<std::byte*>(pointer);
}

void MemoryPool::put_back(Block block) {
  if (device_->is_abandoned()) return;
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(block));
}

/// A user who never waited on a stream has not used it.
void MemoryPool::give_back(Block block, const Consumer& consumer) {
  if (device_->is_abandoned()) return;
  block.stream = consumer->load();
  const std::lock_guard lock(mutex_);
  (block.stream == kNoStream ? spare_ : returned_).push_back(std::move(block));
}

/// Notes where the users of what was returned are. While a stream captures a graph, an event would become
/// part of that; and when a stream is gone or the device has failed, nobody knows when the block may be used
/// again.
void MemoryPool::sort_returned() {
  std::vector<Block> returned;
  {
    const std::lock_guard lock(mutex_);
    returned.swap(returned_);
  }
  for (Block& block : returned) {
    const bool is_capturing = device_->is_capturing(block.stream);
    if (!is_capturing) {
      block.used = device_->new_event();
      if (device_->driver().event_record(block.used.get(), to_stream(block.stream)) != Result::kSuccess)
        continue;
    }
    const std::lock_guard lock(mutex_);
    (is_capturing ? returned_ : spare_).push_back(std::move(block));
  }
}

void MemoryPool::trim() {
  if (device_->is_abandoned()) return;
  std::vector<Block> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(spare_);
  }
  if (all.empty()) return;
  const DeviceScope scope(*device_);
  for (const Block& block : all) static_cast<void>(device_->driver().memory_free(to_pointer(block.memory)));
}

}  // namespace hora::cuda
