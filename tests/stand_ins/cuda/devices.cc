// What a program learns about the driver and its devices before it has a context.

#include <cstdio>

#include "stand_ins/cuda/call.h"
#include "stand_ins/cuda/symbols.h"

namespace hora::fake_cuda {
namespace {

constexpr int kComputeCapability[] = {9, 0};
constexpr int kFirstBus = 0x1b;
constexpr int kBusesApart = 8;
constexpr int kBuses = 256;
constexpr int kPciBusIdBytes = 13;  // "0000:1b:00.0" with its end

void require_device(const State& state, cuda::DeviceNumber device) {
  require(device >= 0 && static_cast<std::size_t>(device) < state.devices.size(), Result::kInvalidDevice);
}

int attribute(cuda::DeviceAttribute which) {
  switch (which) {
    case cuda::DeviceAttribute::kComputeCapabilityMajor:
      return kComputeCapability[0];
    case cuda::DeviceAttribute::kComputeCapabilityMinor:
      return kComputeCapability[1];
  }
  throw Refusal{Result::kInvalidValue};
}

}  // namespace

extern "C" {

Result cuInit(unsigned flags) {
  if (this_thread().in_host_function) return refuse_host_function();
  if (flags != 0) return Result::kInvalidValue;
  State& state = the_state();
  const Lock lock(state.mutex);
  if (state.devices.empty()) return Result::kNoDevice;
  state.initialised = true;
  return Result::kSuccess;
}

Result cuDriverGetVersion(int* version) {
  if (!version) return Result::kInvalidValue;
  *version = the_state().version;
  return Result::kSuccess;
}

Result cuDeviceGetCount(int* count) {
  return call([&](State& state, Lock&) {
    require(count != nullptr, Result::kInvalidValue);
    *count = static_cast<int>(state.devices.size());
  });
}

Result cuDeviceGet(cuda::DeviceNumber* device, int ordinal) {
  return call([&](State& state, Lock&) {
    require(device != nullptr, Result::kInvalidValue);
    require_device(state, ordinal);
    *device = ordinal;
  });
}

Result cuDeviceGetPCIBusId(char* id, int length, cuda::DeviceNumber device) {
  return call([&](State& state, Lock&) {
    require(id != nullptr && length >= kPciBusIdBytes, Result::kInvalidValue);
    require_device(state, device);
    const int bus = (kFirstBus + (state.same_pci ? 0 : device * kBusesApart)) % kBuses;
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(bus));
  });
}

Result cuDeviceGetAttribute(int* value, cuda::DeviceAttribute which, cuda::DeviceNumber device) {
  return call([&](State& state, Lock&) {
    require(value != nullptr, Result::kInvalidValue);
    require_device(state, device);
    *value = attribute(which);
  });
}
}

}  // namespace hora::fake_cuda
