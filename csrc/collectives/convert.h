#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace hora {

/// Copies `count` elements into their accumulation type, multiplied by `factor`: halves become float32, other
/// types keep theirs. Floats are multiplied in their accumulation type; integers in double, then truncated
/// toward zero. A factor of 1 changes nothing. `destination` may equal `source` when the type stays the same.
void widen(const void* source, DType dtype, void* destination, std::size_t count, double factor);

/// The way back: multiplies, then rounds float32 to the half type once.
void narrow(const void* source, DType dtype, void* destination, std::size_t count, double factor);

/// Integers only: divides in place, truncated toward zero.
void divide(void* values, DType dtype, std::size_t count, std::int64_t divisor);

}  // namespace hora
