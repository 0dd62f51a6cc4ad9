#pragma once

#include <memory>
#include <string>

#include "backends/cuda/driver_api.h"

namespace hora::cuda {

/// The driver as it was found at run time.
struct CudaLibrary {
  std::shared_ptr<const Driver> driver;  ///< null where there is none
  std::string place;                     ///< where it was found
  std::string problem;                   ///< otherwise: what is missing, and where it was looked for
};

/// Opens the CUDA driver. `path` is that of the setting HORA_CUDA_LIBRARY, or empty. Touches no device.
[[nodiscard]] CudaLibrary open_cuda(const std::string& path);

/// Throws Error(kSessionFailed) with the name that the driver gives to `result` unless it is kSuccess.
void check(const Driver& driver, Result result, const char* what);

/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
[[nodiscard]] std::string describe(const Driver& driver, Result result);

}  // namespace hora::cuda
