#include "backends/cuda/embedded_kernels.h"

#include <cstdint>

// Defined in cmake/embedded_kernels.S.in.
extern "C" {
extern const std::byte hora_embedded_fatbin[];
extern const std::uint64_t hora_embedded_fatbin_bytes;
extern const char hora_embedded_kernels[];
extern const std::uint64_t hora_embedded_kernels_bytes;
extern const char hora_embedded_block[];
extern const std::uint64_t hora_embedded_block_bytes;
extern const char hora_embedded_elements[];
extern const std::uint64_t hora_embedded_elements_bytes;
extern const char hora_embedded_arguments[];
extern const std::uint64_t hora_embedded_arguments_bytes;
}

namespace hora::cuda {

EmbeddedKernels embedded_kernels() {
  return {{hora_embedded_fatbin, hora_embedded_fatbin_bytes},
          {{
              {"pack_kernels.cu", {hora_embedded_kernels, hora_embedded_kernels_bytes}},
              {"backends/cuda/pack_block.h", {hora_embedded_block, hora_embedded_block_bytes}},
              {"backends/cuda/pack_elements.h", {hora_embedded_elements, hora_embedded_elements_bytes}},
              {"backends/cuda/pack_arguments.h", {hora_embedded_arguments, hora_embedded_arguments_bytes}},
          }}};
}

}  // namespace hora::cuda
