// Compares backends/cuda/driver_api.h with the toolkit's header; all of it is done by the compiler.

#include <cuda.h>

#include "backends/cuda/driver_api.h"
#include "backends/same_kind.h"

namespace hora::cuda {
namespace {

using testing::is_declared_like;
using testing::same_kind;
using testing::same_value;

// The comparison itself: what must not pass.
static_assert(!same_kind<int, long>());
static_assert(!same_kind<int, unsigned>());
static_assert(!same_kind<int*, int>());
static_assert(!same_kind<void*, const void*>());
static_assert(!same_kind<int*, void*>());
static_assert(!same_kind<Stream*, Stream>());
static_assert(!same_kind<Result, int>());

static_assert(is_declared_like<decltype(Driver::init), decltype(cuInit)>);
static_assert(is_declared_like<decltype(Driver::driver_version), decltype(cuDriverGetVersion)>);
static_assert(is_declared_like<decltype(Driver::error_name), decltype(cuGetErrorName)>);
static_assert(is_declared_like<decltype(Driver::error_string), decltype(cuGetErrorString)>);
static_assert(is_declared_like<decltype(Driver::device), decltype(cuDeviceGet)>);
static_assert(is_declared_like<decltype(Driver::device_pci_bus_id), decltype(cuDeviceGetPCIBusId)>);
static_assert(is_declared_like<decltype(Driver::device_attribute), decltype(cuDeviceGetAttribute)>);
static_assert(is_declared_like<decltype(Driver::primary_context_retain), decltype(cuDevicePrimaryCtxRetain)>);
static_assert(
    is_declared_like<decltype(Driver::primary_context_release), decltype(cuDevicePrimaryCtxRelease_v2)>);
static_assert(is_declared_like<decltype(Driver::context_push), decltype(cuCtxPushCurrent_v2)>);
static_assert(is_declared_like<decltype(Driver::context_pop), decltype(cuCtxPopCurrent_v2)>);
static_assert(
    is_declared_like<decltype(Driver::stream_priority_range), decltype(cuCtxGetStreamPriorityRange)>);
static_assert(is_declared_like<decltype(Driver::stream_create), decltype(cuStreamCreateWithPriority)>);
static_assert(is_declared_like<decltype(Driver::stream_destroy), decltype(cuStreamDestroy_v2)>);
static_assert(is_declared_like<decltype(Driver::stream_wait_event), decltype(cuStreamWaitEvent)>);
static_assert(is_declared_like<decltype(Driver::stream_is_capturing), decltype(cuStreamIsCapturing)>);
static_assert(is_declared_like<decltype(Driver::event_create), decltype(cuEventCreate)>);
static_assert(is_declared_like<decltype(Driver::event_destroy), decltype(cuEventDestroy_v2)>);
static_assert(is_declared_like<decltype(Driver::event_record), decltype(cuEventRecord)>);
static_assert(is_declared_like<decltype(Driver::event_query), decltype(cuEventQuery)>);
static_assert(is_declared_like<decltype(Driver::memory_allocate), decltype(cuMemAlloc_v2)>);
static_assert(is_declared_like<decltype(Driver::memory_free), decltype(cuMemFree_v2)>);
static_assert(is_declared_like<decltype(Driver::launch_kernel), decltype(cuLaunchKernel)>);
static_assert(is_declared_like<decltype(Driver::launch_host_function), decltype(cuLaunchHostFunc)>);
static_assert(is_declared_like<decltype(Driver::module_load), decltype(cuModuleLoadData)>);
static_assert(is_declared_like<decltype(Driver::module_unload), decltype(cuModuleUnload)>);
static_assert(is_declared_like<decltype(Driver::module_function), decltype(cuModuleGetFunction)>);
static_assert(
    is_declared_like<decltype(Driver::exchange_capture_mode), decltype(cuThreadExchangeStreamCaptureMode)>);

static_assert(same_kind<DeviceNumber, CUdevice>());
static_assert(same_kind<DevicePointer, CUdeviceptr>());
static_assert(same_kind<HostFunction, CUhostFn>());

static_assert(same_value(Result::kSuccess, CUDA_SUCCESS));
static_assert(same_value(Result::kInvalidValue, CUDA_ERROR_INVALID_VALUE));
static_assert(same_value(Result::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(same_value(Result::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(same_value(Result::kDeinitialized, CUDA_ERROR_DEINITIALIZED));
static_assert(same_value(Result::kNoDevice, CUDA_ERROR_NO_DEVICE));
static_assert(same_value(Result::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE));
static_assert(same_value(Result::kInvalidImage, CUDA_ERROR_INVALID_IMAGE));
static_assert(same_value(Result::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT));
static_assert(same_value(Result::kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(same_value(Result::kInvalidPtx, CUDA_ERROR_INVALID_PTX));
static_assert(same_value(Result::kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
static_assert(same_value(Result::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE));
static_assert(same_value(Result::kNotFound, CUDA_ERROR_NOT_FOUND));
static_assert(same_value(Result::kNotReady, CUDA_ERROR_NOT_READY));
static_assert(same_value(Result::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(same_value(Result::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED));
static_assert(same_value(Result::kUnknown, CUDA_ERROR_UNKNOWN));
static_assert(same_value(Result::kStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT));

static_assert(same_value(kStreamNonBlocking, CU_STREAM_NON_BLOCKING));
static_assert(same_value(kEventDisableTiming, CU_EVENT_DISABLE_TIMING));

static_assert(same_value(DeviceAttribute::kComputeCapabilityMajor,
                         CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(same_value(DeviceAttribute::kComputeCapabilityMinor,
                         CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));

static_assert(same_value(CaptureStatus::kNone, CU_STREAM_CAPTURE_STATUS_NONE));
static_assert(same_value(CaptureStatus::kActive, CU_STREAM_CAPTURE_STATUS_ACTIVE));
static_assert(same_value(CaptureStatus::kInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED));
static_assert(same_value(CaptureMode::kGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL));
static_assert(same_value(CaptureMode::kThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
static_assert(same_value(CaptureMode::kRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED));

}  // namespace
}  // namespace hora::cuda
