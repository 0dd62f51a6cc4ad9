// Primary contexts, which live while somebody retains them, and each thread's stack of current ones.

#include <cstdlib>

#include "stand_ins/cuda/call.h"
#include "stand_ins/cuda/symbols.h"
#include "stand_ins/cuda/work.h"

namespace hora::fake_cuda {
namespace {

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

/// More addresses than memory: those of freed allocations rest for a while, and small ones take a page each.
constexpr std::uint64_t kAddressesPerByte = 4;
constexpr std::uint64_t kLeastAddresses = std::uint64_t{1} << 30;

Device& find_device(State& state, cuda::DeviceNumber number) {
  require(number >= 0 && static_cast<std::size_t>(number) < state.devices.size(), Result::kInvalidDevice);
  return state.devices[static_cast<std::size_t>(number)];
}

void make_context(State& state, Device& device, cuda::DeviceNumber number) {
  if (!device.memory) {
    device.memory =
        std::make_unique<DeviceMemory>(kLeastAddresses + kAddressesPerByte * state.options.memory_bytes);
  }
  device.context = std::make_shared<ContextState>(ContextState{.device = number});
  device.context->handle = state.contexts.add(device.context);
}

void end_streams(State& state, const ContextState& context) {
  for (const auto& stream : state.living) {
    if (stream->context.get() == &context) end_stream(state, *stream);
  }
  state.streams.remove_if([&](const StreamState& each) { return each.context.get() == &context; });
}

void free_memory(const Device& device) {
  for (const auto& [address, block] : std::map(device.memory->blocks())) {
    if (block.living) device.memory->release(address);
  }
}

/// Everything that was made in the context goes with it.
void destroy_context(State& state, Device& device) {
  const auto context = device.context;
  end_streams(state, *context);
  context->default_stream.reset();
  state.events.remove_if([&](const EventState& each) { return each.context == context; });
  state.functions.remove_if([&](const FunctionState& each) { return each.module->context == context; });
  state.modules.remove_if([&](const ModuleState& each) { return each.context == context; });
  free_memory(device);
  state.contexts.remove(context->handle);
  device.context.reset();
}

}  // namespace

extern "C" {

Result cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::DeviceNumber number) {
  return call([&](State& state, Lock&) {
    require(context != nullptr, Result::kInvalidValue);
    Device& device = find_device(state, number);
    require(device.error == Result::kSuccess, device.error);
    if (!device.context) make_context(state, device, number);
    ++device.retained;
    *context = device.context->handle;
  });
}

Result cuDevicePrimaryCtxRelease_v2(cuda::DeviceNumber number) {
  return call([&](State& state, Lock& lock) {
    Device& device = find_device(state, number);
    require(device.retained > 0, Result::kInvalidContext);
    if (--device.retained > 0) return;
    synchronize(state, lock, number, points_of_device(state, number));
    if (device.retained == 0 && device.context) destroy_context(state, device);
  });
}

Result cuCtxPushCurrent_v2(cuda::Context context) {
  return call([&](State& state, Lock&) {
    require(state.contexts.find(context) != nullptr, Result::kInvalidContext);
    this_thread().contexts.push_back(context);
  });
}

Result cuCtxPopCurrent_v2(cuda::Context* context) {
  return call([&](State&, Lock&) {
    auto& contexts = this_thread().contexts;
    require(!contexts.empty(), Result::kInvalidContext);
    if (context) *context = contexts.back();
    contexts.pop_back();
  });
}

Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return call([&](State& state, Lock&) {
    current_context(state);
    if (least) *least = kLeastPriority;
    if (greatest) *greatest = kGreatestPriority;
  });
}
}

}  // namespace hora::fake_cuda
