#pragma once

// The part of CUDA's driver interface that hora uses, in our own words: no toolkit is needed to build, and
// one build serves CUDA 11 to 13. Where the toolkit is present a test compares these declarations with its
// headers.

#include <cstddef>
#include <cstdint>

namespace hora::cuda {

/// CUresult. Only values that are looked at have names.
enum class Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kStreamCaptureImplicit = 906,  // the default stream, and another one captures
  kUnknown = 999,
};

using DeviceNumber = int;              // CUdevice
using DevicePointer = std::uintptr_t;  // CUdeviceptr
using Context = struct ContextTag*;
using Stream = struct StreamTag*;  // null: the default stream of the current context
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using HostFunction = void (*)(void* data);

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;

enum class DeviceAttribute : int {
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
};

enum class CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };
enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

/// The driver's functions. The comments are the names of their symbols; all are in drivers from CUDA 11.0 on.
struct Driver {
  Result (*init)(unsigned flags);                                                      // cuInit
  Result (*driver_version)(int* version);                                              // cuDriverGetVersion
  Result (*error_name)(Result error, const char** name);                               // cuGetErrorName
  Result (*error_string)(Result error, const char** text);                             // cuGetErrorString
  Result (*device)(DeviceNumber* device, int ordinal);                                 // cuDeviceGet
  Result (*device_pci_bus_id)(char* id, int length, DeviceNumber device);              // cuDeviceGetPCIBusId
  Result (*device_attribute)(int* value, DeviceAttribute which, DeviceNumber device);  // cuDeviceGetAttribute
  Result (*primary_context_retain)(Context* context, DeviceNumber device);  // cuDevicePrimaryCtxRetain
  Result (*primary_context_release)(DeviceNumber device);                   // cuDevicePrimaryCtxRelease_v2
  Result (*context_push)(Context context);                                  // cuCtxPushCurrent_v2
  Result (*context_pop)(Context* context);                                  // cuCtxPopCurrent_v2
  Result (*stream_priority_range)(int* least, int* greatest);               // cuCtxGetStreamPriorityRange
  Result (*stream_create)(Stream* stream, unsigned flags, int priority);    // cuStreamCreateWithPriority
  Result (*stream_destroy)(Stream stream);                                  // cuStreamDestroy_v2
  Result (*stream_wait_event)(Stream stream, Event event, unsigned flags);  // cuStreamWaitEvent
  Result (*stream_is_capturing)(Stream stream, CaptureStatus* status);      // cuStreamIsCapturing
  Result (*event_create)(Event* event, unsigned flags);                     // cuEventCreate
  Result (*event_destroy)(Event event);                                     // cuEventDestroy_v2
  Result (*event_record)(Event event, Stream stream);                       // cuEventRecord
  Result (*event_query)(Event event);                                       // cuEventQuery
  Result (*memory_allocate)(DevicePointer* pointer, std::size_t bytes);     // cuMemAlloc_v2
  Result (*memory_free)(DevicePointer pointer);                             // cuMemFree_v2
  Result (*launch_kernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                          Stream stream, void** parameters, void** extra);           // cuLaunchKernel
  Result (*launch_host_function)(Stream stream, HostFunction function, void* data);  // cuLaunchHostFunc
  Result (*module_load)(Module* module, const void* image);                          // cuModuleLoadData
  Result (*module_unload)(Module module);                                            // cuModuleUnload
  Result (*module_function)(Function* function, Module module, const char* name);    // cuModuleGetFunction
  Result (*exchange_capture_mode)(CaptureMode* mode);  // cuThreadExchangeStreamCaptureMode
};

}  // namespace hora::cuda
