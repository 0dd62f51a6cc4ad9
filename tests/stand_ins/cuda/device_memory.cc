#include "stand_ins/cuda/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>

namespace hora::fake_cuda {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kGuardBytes = 512;
constexpr auto kGuard = std::byte{0xfb};

/// As much freed memory keeps its poison and its address; the oldest goes first.
constexpr std::size_t kRestingBytes = std::size_t{64} << 20;

std::size_t span_of(std::size_t bytes) {
  return (bytes + kGuardBytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

void* map(std::size_t bytes, int protection, int file) {
  void* const mapping = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (mapping == MAP_FAILED) stop("mmap of a device's memory failed");
  return mapping;
}

std::string describe(std::uintptr_t address, const DeviceMemory::Block& block) {
  std::ostringstream text;
  text << block.bytes << " bytes at 0x" << std::hex << address << (block.living ? "" : " (freed)");
  return text.str();
}

}  // namespace

void stop(const std::string& message) {
  std::fprintf(stderr, "fake CUDA: %s\n", message.c_str());
  std::abort();
}

DeviceMemory::DeviceMemory(std::size_t address_bytes)
    : address_bytes_(span_of(address_bytes)),
      file_(memfd_create("hora-fake-cuda", MFD_CLOEXEC)),
      closed_(0),
      open_(nullptr),
      next_(0) {
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(address_bytes_)) != 0) {
    stop("memfd_create for a device's memory failed");
  }
  closed_ = reinterpret_cast<std::uintptr_t>(map(address_bytes_, PROT_NONE, file_));
  open_ = static_cast<std::byte*>(map(address_bytes_, PROT_READ | PROT_WRITE, file_));
  next_ = closed_;
}

DeviceMemory::~DeviceMemory() {
  munmap(reinterpret_cast<void*>(closed_), address_bytes_);
  munmap(open_, address_bytes_);
  close(file_);
}

std::optional<std::uintptr_t> DeviceMemory::allocate(std::size_t bytes) {
  if (bytes > address_bytes_) return std::nullopt;
  const std::size_t span = span_of(bytes);
  auto address = find_gap(next_, span);
  if (!address) address = find_gap(closed_, span);
  if (!address) return std::nullopt;
  blocks_[*address] = {.bytes = bytes, .span = span};
  std::fill_n(open(*address) + bytes, kGuardBytes, kGuard);
  next_ = *address + span;
  live_bytes_ += bytes;
  return address;
}

/// The first gap at `from`, which is no address within a block, or above.
std::optional<std::uintptr_t> DeviceMemory::find_gap(std::uintptr_t from, std::size_t span) const {
  std::uintptr_t gap = from;
  for (auto block = blocks_.lower_bound(from); block != blocks_.end() && block->first < gap + span; ++block) {
    gap = block->first + block->second.span;
  }
  if (gap + span > closed_ + address_bytes_) return std::nullopt;
  return gap;
}

void DeviceMemory::release(std::uintptr_t address) {
  Block& block = blocks_.at(address);
  check_guard(address, block);
  std::memset(open(address), kPoison, block.bytes);
  block.living = false;
  live_bytes_ -= block.bytes;
  rest(address);
}

void DeviceMemory::check_guard(std::uintptr_t address, const Block& block) const {
  const std::byte* const guard = open(address) + block.bytes;
  const auto* const end = guard + kGuardBytes;
  const auto* const changed = std::find_if(guard, end, [](std::byte each) { return each != kGuard; });
  if (changed == end) return;
  stop("something wrote " + std::to_string(changed - guard) + " bytes behind the end of " +
       describe(address, block));
}

/// What has rested longest is given back to the system when too much rests.
void DeviceMemory::rest(std::uintptr_t address) {
  resting_.push_back(address);
  resting_bytes_ += blocks_.at(address).span;
  while (resting_bytes_ > kRestingBytes) {
    const auto oldest = blocks_.find(resting_.front());
    const std::size_t span = oldest->second.span;
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(oldest->first - closed_),
              static_cast<off_t>(span));
    resting_bytes_ -= span;
    blocks_.erase(oldest);
    resting_.pop_front();
  }
}

bool DeviceMemory::contains(std::uintptr_t address) const {
  return address >= closed_ && address - closed_ < address_bytes_;
}

const DeviceMemory::Block* DeviceMemory::find(std::uintptr_t address, std::size_t bytes) const {
  const auto above = blocks_.upper_bound(address);
  if (above == blocks_.begin()) return nullptr;
  const auto& [beginning, block] = *std::prev(above);
  const std::size_t offset = address - beginning;
  const bool within = offset < block.bytes && bytes <= block.bytes - offset;
  return block.living && within ? &block : nullptr;
}

const DeviceMemory::Block* DeviceMemory::find_beginning(std::uintptr_t address) const {
  const auto block = blocks_.find(address);
  return block != blocks_.end() && block->second.living ? &block->second : nullptr;
}

std::byte* DeviceMemory::open(std::uintptr_t address) const {
  return open_ + (address - closed_);
}

std::string DeviceMemory::describe_neighbours(std::uintptr_t address) const {
  const auto above = blocks_.upper_bound(address);
  std::string text;
  if (above != blocks_.begin()) {
    const auto& [beginning, block] = *std::prev(above);
    text += "; the nearest allocation at or below is " + describe(beginning, block);
  }
  if (above != blocks_.end()) {
    text += "; the nearest above is " + describe(above->first, above->second);
  }
  return text;
}

}  // namespace hora::fake_cuda
