// Allocations.

#include <algorithm>
#include <sstream>

#include "stand_ins/cuda/captures.h"
#include "stand_ins/cuda/symbols.h"
#include "stand_ins/cuda/work.h"

namespace hora::fake_cuda {
namespace {

/// The device that the address belongs to, or null.
Device* find_owner(State& state, std::uintptr_t address) {
  const auto owner = std::ranges::find_if(
      state.devices, [&](const Device& each) { return each.memory && each.memory->contains(address); });
  return owner == state.devices.end() ? nullptr : &*owner;
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
    const auto address = memory.allocate(bytes);
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

void* fake_cuda_memory(const void* device_pointer, std::size_t bytes) {
  State& state = the_state();
  const Lock lock(state.mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(device_pointer);
  const Device* const owner = find_owner(state, address);
  if (bytes > 0 && (owner == nullptr || owner->memory->find(address, bytes) == nullptr))
    stop_access(owner, address, bytes);
  return owner != nullptr ? owner->memory->open(address) : nullptr;
}
}

}  // namespace hora::fake_cuda
