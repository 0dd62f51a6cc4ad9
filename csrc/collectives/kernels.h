#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "core/op.h"

namespace hora {

/// How results are written: with ordinary stores, or past the caches ("streaming", non-temporal) to memory
/// that this core will not read again soon.
enum class Store : std::uint8_t { kCached, kStreaming };

/// What happens to the elements: those of every source are multiplied by `before`, they are combined in the
/// order of the sources, the result is divided by `divisor` (integers only), multiplied by `after` and
/// rounded once. Halves are float32 from the first multiplication to the last; integers are multiplied in
/// double, truncated toward zero, and stay at the end of their range when they leave it.
struct Reduction {
  DType dtype;
  ReduceOp op;
  double before = 1.0;
  double after = 1.0;
  std::int64_t divisor = 1;
};

struct Destination {
  std::byte* data;
  Store store = Store::kCached;
};

/// Reduces `count` elements of all sources (at least one) into every destination (at least one). A
/// destination may be a source, else they do not overlap; all are aligned to their elements. The bits of the
/// result do not depend on the processor's vectors. Operations are those of `reduce_into`; Adasum has no
/// kernel.
///
/// Streaming needs full, aligned vectors. It begins where the first streaming destination reaches a cache
/// line; another destination that is aligned differently gets ordinary stores. What has been streamed is
/// visible to whoever sees a release store that follows.
void reduce_all(std::span<const std::byte* const> sources, std::span<const Destination> destinations,
                std::size_t count, const Reduction& reduction);

/// The last steps alone: turns `count` complete sums, of accumulation type, into results. `results` may equal
/// `sums` where the type stays the same; sums are changed.
void finish_sums(std::byte* sums, std::byte* results, std::size_t count, const Reduction& reduction);

/// memcpy with a choice of stores; streamed bytes are published in the same way.
void copy(const std::byte* source, std::byte* destination, std::size_t bytes, Store store);

}  // namespace hora
