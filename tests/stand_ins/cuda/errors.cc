// The names and descriptions of results.

#include <algorithm>
#include <array>

#include "stand_ins/cuda/symbols.h"
#include "stand_ins/fake_cuda.h"

namespace hora::fake_cuda {
namespace {

using cuda::Result;

struct Words {
  Result result;
  const char* name;
  const char* text;
};

constexpr std::array kWords = {
    Words{Result::kSuccess, "CUDA_SUCCESS", "no error"},
    Words{Result::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    Words{Result::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    Words{Result::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    Words{Result::kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    Words{Result::kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    Words{Result::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    Words{Result::kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    Words{Result::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    Words{Result::kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
          "no kernel image is available for execution on the device"},
    Words{Result::kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    Words{Result::kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
          "the provided PTX was compiled with an unsupported toolchain."},
    Words{Result::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    Words{Result::kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    Words{Result::kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    Words{Result::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    Words{Result::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    Words{kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
          "operation not permitted when stream is capturing"},
    Words{kStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
          "operation failed due to a previous error during capture"},
    Words{kStreamCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
          "dependency created on uncaptured work in another stream"},
    Words{kStreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
          "operation would make the legacy stream depend on a capturing blocking stream"},
    Words{kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
          "operation not permitted on an event last recorded in a capturing stream"},
    Words{Result::kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

Result find_words(Result error, const char** found, const char* Words::* which) {
  if (!found) return Result::kInvalidValue;
  const auto* const words = std::ranges::find(kWords, error, &Words::result);
  *found = words == kWords.end() ? nullptr : words->*which;
  return *found ? Result::kSuccess : Result::kInvalidValue;
}

}  // namespace

extern "C" {

Result cuGetErrorName(Result error, const char** name) {
  return find_words(error, name, &Words::name);
}

Result cuGetErrorString(Result error, const char** text) {
  return find_words(error, text, &Words::text);
}
}

}  // namespace hora::fake_cuda
