#include "collectives/kernels.h"

#include <algorithm>
#include <cstring>

#include "collectives/convert.h"
#include "collectives/reduce.h"

namespace hora {

void reduce_all(std::span<const std::byte* const> sources, std::span<const Destination> destinations,
                std::size_t count, const Reduction& reduction) {
  constexpr std::size_t kChunk = 1024;
  alignas(64) std::byte sums[kChunk * 8];
  alignas(64) std::byte next[kChunk * 8];
  const std::size_t size = size_of(reduction.dtype);
  const DType type = accumulation_type(reduction.dtype);
  for (std::size_t at = 0; at < count; at += kChunk) {
    const std::size_t n = std::min(kChunk, count - at);
    widen(sources[0] + at * size, reduction.dtype, sums, n, reduction.before);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      widen(sources[s] + at * size, reduction.dtype, next, n, reduction.before);
      reduce_into(sums, next, n, type, reduction.op);
    }
    if (reduction.divisor != 1) divide(sums, type, n, reduction.divisor);
    narrow(sums, reduction.dtype, next, n, reduction.after);
    for (const Destination& d : destinations) std::memcpy(d.data + at * size, next, n * size);
  }
}

void copy(const std::byte* source, std::byte* destination, std::size_t bytes, Store) {
  if (bytes != 0) std::memcpy(destination, source, bytes);
}

}  // namespace hora
