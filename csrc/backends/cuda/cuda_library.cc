#include "backends/cuda/cuda_library.h"

#include <fmt/format.h>

#include "backends/library_search.h"
#include "base/error.h"
#include "base/text.h"

namespace hora::cuda {
namespace {

/// The names have the versions that CUDA's header gives them, the same since CUDA 11.
void bind_all(SymbolBinder& binder, Driver& driver) {
  binder.bind(driver.init, "cuInit");
  binder.bind(driver.driver_version, "cuDriverGetVersion");
  binder.bind(driver.error_name, "cuGetErrorName");
  binder.bind(driver.error_string, "cuGetErrorString");
  binder.bind(driver.device, "cuDeviceGet");
  binder.bind(driver.device_pci_bus_id, "cuDeviceGetPCIBusId");
  binder.bind(driver.device_attribute, "cuDeviceGetAttribute");
  binder.bind(driver.primary_context_retain, "cuDevicePrimaryCtxRetain");
  binder.bind(driver.primary_context_release, "cuDevicePrimaryCtxRelease_v2");
  binder.bind(driver.context_push, "cuCtxPushCurrent_v2");
  binder.bind(driver.context_pop, "cuCtxPopCurrent_v2");
  binder.bind(driver.stream_priority_range, "cuCtxGetStreamPriorityRange");
  binder.bind(driver.stream_create, "cuStreamCreateWithPriority");
  binder.bind(driver.stream_destroy, "cuStreamDestroy_v2");
  binder.bind(driver.stream_wait_event, "cuStreamWaitEvent");
  binder.bind(driver.stream_is_capturing, "cuStreamIsCapturing");
  binder.bind(driver.event_create, "cuEventCreate");
  binder.bind(driver.event_destroy, "cuEventDestroy_v2");
  binder.bind(driver.event_record, "cuEventRecord");
  binder.bind(driver.event_query, "cuEventQuery");
  binder.bind(driver.memory_allocate, "cuMemAlloc_v2");
  binder.bind(driver.memory_free, "cuMemFree_v2");
  binder.bind(driver.launch_kernel, "cuLaunchKernel");
  binder.bind(driver.launch_host_function, "cuLaunchHostFunc");
  binder.bind(driver.module_load, "cuModuleLoadData");
  binder.bind(driver.module_unload, "cuModuleUnload");
  binder.bind(driver.module_function, "cuModuleGetFunction");
  binder.bind(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
}

}  // namespace

CudaLibrary open_cuda(const std::string& path) {
  const FoundLibrary found = find_library({.path = path,
                                           .setting = "HORA_CUDA_LIBRARY",
                                           .symbol = "cuDevicePrimaryCtxRetain",
                                           .names = {"libcuda.so.1"},
                                           .folders = {}});
  if (found.place.empty())
    return {nullptr, {}, fmt::format("the CUDA driver was not found ({})", join(found.tried, "; "))};
  auto driver = std::make_shared<Driver>();
  SymbolBinder binder(found);
  bind_all(binder, *driver);
  if (!binder.missing().empty()) {
    return {nullptr,
            {},
            fmt::format("the CUDA driver is too old ({}: no {}); hora needs one of CUDA 11 or later",
                        found.place, join(binder.missing(), ", "))};
  }
  return {std::move(driver), found.place, {}};
}

std::string describe(const Driver& driver, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(result, &name) != Result::kSuccess || name == nullptr)
    return fmt::format("CUDA error {}", static_cast<int>(result));
  if (driver.error_string(result, &text) != Result::kSuccess || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

void check(const Driver& driver, Result result, const char* what) {
  if (result != Result::kSuccess)
    raise(ErrorKind::kSessionFailed, "{} failed: {}", what, describe(driver, result));
}

}  // namespace hora::cuda
