#pragma once

// Kernels are host functions that a test has registered by name.

#include <cstddef>

#include "stand_ins/fake_cuda.h"

namespace hora::fake_cuda {

/// A row of the table of kernels.
struct KernelEntry {
  std::size_t parameter_bytes = 0;
  Kernel run = nullptr;
};

}  // namespace hora::fake_cuda
