#include "collectives/kernels.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "collectives/convert.h"
#include "collectives/pass.h"

namespace hora {
namespace {

/// Integers that are scaled or divided: the steps one after another, for as many elements as stay in the
/// first level cache. There are no vector instructions for most of it, and few jobs average integers.
void reduce_in_steps(std::span<const std::byte* const> sources, std::span<const Destination> destinations,
                     std::size_t count, const Reduction& reduction) {
  constexpr std::size_t kBytes = 4096;
  alignas(64) std::array<std::byte, kBytes> sums;
  alignas(64) std::array<std::byte, kBytes> operands;
  const std::array<const std::byte*, 2> pair{sums.data(), operands.data()};
  const std::array<Destination, 1> back{Destination{sums.data()}};
  const DType dtype = reduction.dtype;
  const std::size_t element = size_of(dtype);
  for (std::size_t at = 0; at < count; at += kBytes / element) {
    const std::size_t length = std::min(kBytes / element, count - at);
    widen(sources.front() + at * element, dtype, sums.data(), length, reduction.before);
    for (const std::byte* source : sources.subspan(1)) {
      widen(source + at * element, dtype, operands.data(), length, reduction.before);
      reduce_integers({pair, back, length}, dtype, reduction.op);
    }
    if (reduction.divisor != 1) divide(sums.data(), dtype, length, reduction.divisor);
    narrow(sums.data(), dtype, sums.data(), length, reduction.after);
    for (const Destination& destination : destinations)
      std::memcpy(destination.data + at * element, sums.data(), length * element);
  }
}

}  // namespace

void reduce_all(std::span<const std::byte* const> sources, std::span<const Destination> destinations,
                std::size_t count, const Reduction& reduction) {
  assert(!sources.empty() && !destinations.empty());
  if (info(reduction.dtype).is_floating) {
    assert(reduction.divisor == 1);
    reduce_floats({sources, destinations, count, reduction.before, reduction.after}, reduction.dtype,
                  reduction.op);
  } else if (reduction.before != 1.0 || reduction.after != 1.0 || reduction.divisor != 1) {
    reduce_in_steps(sources, destinations, count, reduction);
  } else {
    reduce_integers({sources, destinations, count}, reduction.dtype, reduction.op);
  }
}

void finish_sums(std::byte* sums, std::byte* results, std::size_t count, const Reduction& reduction) {
  if (reduction.divisor != 1) divide(sums, accumulation_type(reduction.dtype), count, reduction.divisor);
  narrow(sums, reduction.dtype, results, count, reduction.after);
}

}  // namespace hora
