#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace hora::cuda {

/// A file as it was when hora was built; its text is followed by a zero byte.
struct EmbeddedText {
  const char* name;
  std::string_view text;
};

/// What the build has put into this library.
struct EmbeddedKernels {
  std::span<const std::byte> fatbin;  ///< machine code for many GPUs; empty where hora was built without nvcc
  std::array<EmbeddedText, 4>
      sources;  ///< the first is to be compiled and includes the others by these names
};

[[nodiscard]] EmbeddedKernels embedded_kernels();

}  // namespace hora::cuda
