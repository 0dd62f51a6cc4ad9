// NCCL's functions that need no communicator: version and memory.

#include <fmt/format.h>

#include <cstdlib>

#include "stand_ins/cuda/symbols.h"
#include "stand_ins/nccl/control.h"
#include "stand_ins/nccl/report.h"
#include "stand_ins/nccl/symbols.h"

namespace hora::fake_nccl {
namespace {

using nccl::Result;

constexpr int kVersion = 22809;

Result checked(cuda::Result result, const char* caller) {
  if (result == cuda::Result::kSuccess) return Result::kSuccess;
  return failed(Result::kUnhandledCudaError,
                fmt::format("{}: CUDA error {}", caller, static_cast<int>(result)));
}

}  // namespace

extern "C" {

Result ncclGetVersion(int* version) {
  if (version == nullptr) return failed(Result::kInvalidArgument, "ncclGetVersion: null");
  const char* const given = std::getenv("HORA_FAKE_NCCL_VERSION");
  *version = given == nullptr ? kVersion : std::atoi(given);
  return Result::kSuccess;
}

Result ncclMemAlloc(void** pointer, std::size_t bytes) {
  if (pointer == nullptr || bytes == 0) return failed(Result::kInvalidArgument, "ncclMemAlloc: nothing");
  if (allocation_fails()) return checked(cuda::Result::kOutOfMemory, "ncclMemAlloc");
  cuda::DevicePointer allocated = 0;
  const Result result = checked(fake_cuda::cuMemAlloc_v2(&allocated, bytes), "ncclMemAlloc");
  if (result != Result::kSuccess) return result;
  count(&Counts::allocations);
  *pointer = reinterpret_cast<void*>(allocated);
  return Result::kSuccess;
}

Result ncclMemFree(void* pointer) {
  if (pointer == nullptr) return Result::kSuccess;
  count(&Counts::frees);
  return checked(fake_cuda::cuMemFree_v2(reinterpret_cast<cuda::DevicePointer>(pointer)), "ncclMemFree");
}
}

}  // namespace hora::fake_nccl
