#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "core/op.h"

namespace hora {

enum class Store : std::uint8_t { kCached, kStreaming };

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

void reduce_all(std::span<const std::byte* const> sources, std::span<const Destination> destinations,
                std::size_t count, const Reduction& reduction);

void copy(const std::byte* source, std::byte* destination, std::size_t bytes, Store store);

}  // namespace hora
