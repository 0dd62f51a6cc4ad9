#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "collectives/kernels.h"
#include "core/op.h"

namespace hora {

/// One pass of vector code over memory; see `reduce_all` for its words. The factors are for floats only.
struct Pass {
  std::span<const std::byte* const> sources;
  std::span<const Destination> destinations;
  std::size_t count;
  double before = 1.0;
  double after = 1.0;
};

/// Reduces float16, bfloat16, float32 or float64.
void reduce_floats(const Pass& pass, DType dtype, ReduceOp op);

/// Reduces integers or bool.
void reduce_integers(const Pass& pass, DType dtype, ReduceOp op);

/// Converts the only source between a half type and float32, or scales float32 or float64.
void convert_floats(const Pass& pass, DType from, DType to);

}  // namespace hora
