// The file that keeps compiled kernels.

#include "backends/cuda/image_cache.h"
#include "fuzz.h"

namespace hora::fuzz {

void take(std::span<const std::byte> input) {
  const std::vector<std::byte> bytes(input.begin(), input.end());
  if (const auto image = cuda::unseal(bytes)) require(cuda::seal(*image) == bytes);
}

}  // namespace hora::fuzz
