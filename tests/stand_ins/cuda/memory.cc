// Allocations, and what is known about a pointer.

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "stand_ins/cuda/captures.h"
#include "stand_ins/cuda/symbols.h"
#include "stand_ins/cuda/work.h"

namespace hora::fake_cuda {
namespace {

constexpr std::size_t kHostAlignment = 4096;
constexpr unsigned kHostFlags = 7;

/// The device that the address belongs to, or null.
Device* find_owner(State& state, std::uintptr_t address) {
  const auto owner = std::ranges::find_if(
      state.devices, [&](const Device& each) { return each.memory && each.memory->contains(address); });
  return owner == state.devices.end() ? nullptr : &*owner;
}

/// The block of cuMemHostAlloc with all these bytes, or null.
const HostBlock* find_host_block(const State& state, std::uintptr_t address, std::size_t bytes) {
  auto above = state.host_blocks.upper_bound(address);
  if (above == state.host_blocks.begin()) return nullptr;
  const auto& [beginning, block] = *--above;
  const std::size_t offset = address - beginning;
  return offset < block.bytes && bytes <= block.bytes - offset ? &block : nullptr;
}

struct PointerFacts {
  cuda::Context context;
  unsigned memory_type;
  int device;
};

PointerFacts find_facts(State& state, std::uintptr_t address) {
  if (Device* const owner = find_owner(state, address)) {
    const auto* const block = owner->memory->find(address, 1);
    require(block != nullptr, Result::kInvalidValue);
    return {block->context, cuda::kMemoryTypeDevice, static_cast<int>(owner - state.devices.data())};
  }
  const HostBlock* const block = find_host_block(state, address, 1);
  require(block != nullptr, Result::kInvalidValue);
  return {block->context->handle, cuda::kMemoryTypeHost, block->context->device};
}

[[noreturn]] void stop_access(const Device* owner, std::uintptr_t address, std::size_t bytes) {
  std::ostringstream message;
  message << bytes << " bytes at 0x" << std::hex << address << " are not within one living allocation";
  message << (owner ? owner->memory->describe_neighbours(address) : "; no device has this address");
  stop(message.str());
}

}  // namespace

extern "C" {

Result cuMemAlloc_v2(cuda::DevicePointer* pointer, std::size_t bytes) {
  return call([&](State& state, Lock&) {
    require(pointer != nullptr && bytes > 0, Result::kInvalidValue);
    const auto context = current_context(state);
    require_no_capture_forbids(state);
    const bool fails = state.failing_allocations > 0;
    if (fails) --state.failing_allocations;
    DeviceMemory& memory = *device_of(state, *context).memory;
    const bool fits = memory.live_bytes() <= state.options.memory_bytes &&
                      bytes <= state.options.memory_bytes - memory.live_bytes();
    require(!fails && fits, Result::kOutOfMemory);
    const auto address = memory.allocate(bytes, context->handle);
    require(address.has_value(), Result::kOutOfMemory);
    ++state.counts.allocations;
    *pointer = *address;
  });
}

Result cuMemFree_v2(cuda::DevicePointer pointer) {
  return call([&](State& state, Lock& lock) {
    require(find_current_context(state) != nullptr, Result::kInvalidContext);
    require_no_capture_forbids(state);
    Device* const owner = find_owner(state, pointer);
    require(owner && owner->memory->find_beginning(pointer), Result::kInvalidValue);
    const int device = static_cast<int>(owner - state.devices.data());
    synchronize(state, lock, device, points_of_device(state, device));
    require(owner->memory->find_beginning(pointer), Result::kInvalidValue);  // freed by two threads
    owner->memory->release(pointer);
    ++state.counts.frees;
    require(owner->error == Result::kSuccess, owner->error);
  });
}

Result cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  return call([&](State& state, Lock&) {
    require(pointer != nullptr && bytes > 0 && flags <= kHostFlags, Result::kInvalidValue);
    const auto context = current_context(state);
    require_no_capture_forbids(state);
    void* memory = nullptr;
    require(posix_memalign(&memory, kHostAlignment, bytes) == 0, Result::kOutOfMemory);
    state.host_blocks[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, context};
    ++state.counts.host_allocations;
    *pointer = memory;
  });
}

Result cuMemFreeHost(void* pointer) {
  return call([&](State& state, Lock& lock) {
    require(find_current_context(state) != nullptr, Result::kInvalidContext);
    require_no_capture_forbids(state);
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const auto block = state.host_blocks.find(address);
    require(block != state.host_blocks.end(), Result::kInvalidValue);
    const int device = block->second.context->device;
    synchronize(state, lock, device, points_of_device(state, device));
    require(state.host_blocks.erase(address) == 1, Result::kInvalidValue);  // freed by two threads
    std::free(pointer);
    ++state.counts.host_frees;
  });
}

Result cuPointerGetAttribute(void* value, cuda::PointerAttribute which, cuda::DevicePointer pointer) {
  return call([&](State& state, Lock&) {
    require(value != nullptr, Result::kInvalidValue);
    const PointerFacts facts = find_facts(state, pointer);
    switch (which) {
      case cuda::PointerAttribute::kContext:
        *static_cast<cuda::Context*>(value) = facts.context;
        return;
      case cuda::PointerAttribute::kMemoryType:
        *static_cast<unsigned*>(value) = facts.memory_type;
        return;
      case cuda::PointerAttribute::kDeviceOrdinal:
        *static_cast<int*>(value) = facts.device;
        return;
    }
    throw Refusal{Result::kInvalidValue};
  });
}

void* fake_cuda_memory(const void* device_pointer, std::size_t bytes) {
  State& state = the_state();
  const Lock lock(state.mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(device_pointer);
  const Device* const owner = find_owner(state, address);
  if (owner) {
    if (bytes > 0 && !owner->memory->find(address, bytes)) stop_access(owner, address, bytes);
    return owner->memory->open(address);
  }
  if (bytes > 0 && !find_host_block(state, address, bytes)) stop_access(owner, address, bytes);
  return reinterpret_cast<void*>(address);
}
}

}  // namespace hora::fake_cuda
