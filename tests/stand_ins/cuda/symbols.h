#pragma once

// The driver's symbols that the stand-in exports, and the table that libhora makes of those which it uses.
// The compiler compares the two.

#include <cstddef>

#include "backends/cuda/driver_api.h"

namespace hora::fake_cuda {

extern "C" {
cuda::Result cuInit(unsigned flags);
cuda::Result cuDriverGetVersion(int* version);
cuda::Result cuGetErrorName(cuda::Result error, const char** name);
cuda::Result cuGetErrorString(cuda::Result error, const char** text);
cuda::Result cuDeviceGetCount(int* count);
cuda::Result cuDeviceGet(cuda::DeviceNumber* device, int ordinal);
cuda::Result cuDeviceGetPCIBusId(char* id, int length, cuda::DeviceNumber device);
cuda::Result cuDeviceGetAttribute(int* value, cuda::DeviceAttribute which, cuda::DeviceNumber device);
cuda::Result cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::DeviceNumber device);
cuda::Result cuDevicePrimaryCtxRelease_v2(cuda::DeviceNumber device);
cuda::Result cuCtxPushCurrent_v2(cuda::Context context);
cuda::Result cuCtxPopCurrent_v2(cuda::Context* context);
cuda::Result cuCtxGetStreamPriorityRange(int* least, int* greatest);
cuda::Result cuStreamCreateWithPriority(cuda::Stream* stream, unsigned flags, int priority);
cuda::Result cuStreamDestroy_v2(cuda::Stream stream);
cuda::Result cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned flags);
cuda::Result cuStreamQuery(cuda::Stream stream);
cuda::Result cuStreamIsCapturing(cuda::Stream stream, cuda::CaptureStatus* status);
cuda::Result cuEventCreate(cuda::Event* event, unsigned flags);
cuda::Result cuEventDestroy_v2(cuda::Event event);
cuda::Result cuEventRecord(cuda::Event event, cuda::Stream stream);
cuda::Result cuEventQuery(cuda::Event event);
cuda::Result cuEventSynchronize(cuda::Event event);
cuda::Result cuMemAlloc_v2(cuda::DevicePointer* pointer, std::size_t bytes);
cuda::Result cuMemFree_v2(cuda::DevicePointer pointer);
cuda::Result cuMemcpyDtoDAsync_v2(cuda::DevicePointer to, cuda::DevicePointer from, std::size_t bytes,
                                  cuda::Stream stream);
cuda::Result cuMemcpyHtoDAsync_v2(cuda::DevicePointer to, const void* from, std::size_t bytes,
                                  cuda::Stream stream);
cuda::Result cuMemcpyDtoHAsync_v2(void* to, cuda::DevicePointer from, std::size_t bytes, cuda::Stream stream);
cuda::Result cuMemsetD8Async(cuda::DevicePointer to, unsigned char value, std::size_t count,
                             cuda::Stream stream);
cuda::Result cuLaunchKernel(cuda::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                            cuda::Stream stream, void** parameters, void** extra);
cuda::Result cuLaunchHostFunc(cuda::Stream stream, cuda::HostFunction function, void* data);
cuda::Result cuModuleLoadData(cuda::Module* module, const void* image);
cuda::Result cuModuleUnload(cuda::Module module);
cuda::Result cuModuleGetFunction(cuda::Function* function, cuda::Module module, const char* name);
cuda::Result cuThreadExchangeStreamCaptureMode(cuda::CaptureMode* mode);
}

inline constexpr cuda::Driver kSymbols{
    .init = cuInit,
    .driver_version = cuDriverGetVersion,
    .error_name = cuGetErrorName,
    .error_string = cuGetErrorString,
    .device = cuDeviceGet,
    .device_pci_bus_id = cuDeviceGetPCIBusId,
    .device_attribute = cuDeviceGetAttribute,
    .primary_context_retain = cuDevicePrimaryCtxRetain,
    .primary_context_release = cuDevicePrimaryCtxRelease_v2,
    .context_push = cuCtxPushCurrent_v2,
    .context_pop = cuCtxPopCurrent_v2,
    .stream_priority_range = cuCtxGetStreamPriorityRange,
    .stream_create = cuStreamCreateWithPriority,
    .stream_destroy = cuStreamDestroy_v2,
    .stream_wait_event = cuStreamWaitEvent,
    .stream_is_capturing = cuStreamIsCapturing,
    .event_create = cuEventCreate,
    .event_destroy = cuEventDestroy_v2,
    .event_record = cuEventRecord,
    .event_query = cuEventQuery,
    .memory_allocate = cuMemAlloc_v2,
    .memory_free = cuMemFree_v2,
    .launch_kernel = cuLaunchKernel,
    .launch_host_function = cuLaunchHostFunc,
    .module_load = cuModuleLoadData,
    .module_unload = cuModuleUnload,
    .module_function = cuModuleGetFunction,
    .exchange_capture_mode = cuThreadExchangeStreamCaptureMode,
};

}  // namespace hora::fake_cuda
