#pragma once

// What tests and the fake NCCL may ask of the fake CUDA driver beside its driver interface. All functions are
// exported by libhora_fake_cuda.so and may be called from any thread.

#include <cstddef>
#include <cstdint>

#include "backends/cuda/driver_api.h"

namespace hora::fake_cuda {

/// What has happened since the process began, over all devices. Work counts when it is complete; that of
/// fake_cuda_enqueue counts nowhere.
struct Counts {
  std::uint64_t allocations;
  std::uint64_t frees;
  std::uint64_t live_bytes;
  std::uint64_t events_created;
  std::uint64_t events_destroyed;
  std::uint64_t streams_created;
  std::uint64_t streams_destroyed;
  std::uint64_t kernels;
  std::uint64_t copies;
  std::uint64_t host_functions;
  std::uint64_t synchronizations;  ///< calls that block the host until a device has done something
  std::uint64_t fills;
  std::uint64_t calls_from_host_functions;  ///< refused calls of the driver
};

/// How streams run their work.
struct Options {
  /// 0: every stream has a thread of its own. Otherwise one thread runs one piece of work at a time; the seed
  /// decides which when several can run.
  std::uint64_t seed = 0;
  /// Every piece of work begins this late, in microseconds.
  std::uint32_t delay_us = 0;
  /// Bytes of each device's memory. A device in use can be made smaller, not larger.
  std::uint64_t memory_bytes = std::uint64_t{1} << 32;
};

/// Work on a stream: says whether it is complete; if not it is called again later, and the stream stands
/// still meanwhile. It runs on a thread of the driver.
using Work = bool (*)(void* data);

/// A kernel: runs on a thread of the driver, for the whole grid, and reaches device memory by
/// fake_cuda_memory. `grid` is the number of blocks, `block` that of their threads; parameters[0] points to a
/// copy, made at the launch, of the kernel's only parameter.
using Kernel = void (*)(unsigned grid, unsigned block, void* const* parameters);

/// Results that come of stream capture only.
inline constexpr auto kStreamCaptureUnsupported = static_cast<cuda::Result>(900);
inline constexpr auto kStreamCaptureInvalidated = static_cast<cuda::Result>(901);
inline constexpr auto kStreamCaptureIsolation = static_cast<cuda::Result>(905);
inline constexpr auto kStreamCaptureImplicit = static_cast<cuda::Result>(906);
inline constexpr auto kCapturedEvent = static_cast<cuda::Result>(907);

extern "C" {

Counts fake_cuda_counts();

/// Whether there is a seed matters when streams are made; which, and the delay, when work is submitted. The
/// environment variables HORA_FAKE_CUDA_DEVICES (number of devices, default 8), HORA_FAKE_CUDA_SEED,
/// HORA_FAKE_CUDA_DELAY_US and HORA_FAKE_CUDA_MEMORY give the values at the beginning;
/// HORA_FAKE_CUDA_VERSION the driver's version (default 13000); HORA_FAKE_CUDA_SAME_PCI=1 gives all devices
/// the same PCI bus id.
void fake_cuda_set_options(const Options* options);

/// Appends work to a stream of the calling thread's current context, as a kernel would be.
cuda::Result fake_cuda_enqueue(cuda::Stream stream, Work work, void* data);

/// cuModuleGetFunction finds the kernel by this name in every module from now on; replaces one that was
/// registered before. The packing kernels are there from the beginning.
void fake_cuda_register_kernel(const char* name, std::size_t parameter_bytes, Kernel kernel);

/// Where work may touch what a device pointer points to. Ends the
/// process with a message when the `bytes` from there are not within one living allocation.
void* fake_cuda_memory(const void* device_pointer, std::size_t bytes);

/// The device whose context is current on the calling thread, or -1.
int fake_cuda_current_device();

/// Whether the stream is one of this device's, and alive.
bool fake_cuda_is_stream_of(cuda::Stream stream, int device);

/// Begins or ends a capture on the stream, in mode kGlobal. Work put on the stream meanwhile is taken and
/// never runs. Ending returns kStreamCaptureInvalidated if a thread made a call that the capture forbids to
/// it.
cuda::Result fake_cuda_set_capturing(cuda::Stream stream, bool capturing);

/// From now on every call on the device, and every pending work, fails with this error, as after a fault on a
/// real device. Handles can still be destroyed. kSuccess repairs the device.
void fake_cuda_break_device(int device, cuda::Result error);

/// The next `count` allocations of device memory fail with kOutOfMemory.
void fake_cuda_fail_allocations(int count);

/// Waits until all streams of all devices are idle, for `timeout_ms` at most; says whether they are.
bool fake_cuda_drain(int timeout_ms);
}

}  // namespace hora::fake_cuda
