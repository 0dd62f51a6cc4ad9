#pragma once

#include <span>

#include "base/dtype.h"
#include "core/op.h"

namespace hora::testing {

/// How values are multiplied around a reduction.
struct Factors {
  double prescale = 1.0;
  double postscale = 1.0;
};

/// Allreduce of one element as documented, one rank after the other, in float64 and wrapping 64-bit integers.
/// The result is not rounded to a floating `dtype`.
[[nodiscard]] double reduced(DType dtype, ReduceOp op, std::span<const double> contributions,
                             Factors factors = {});

/// Whether a result equals what was expected; a floating one may be two units in its last place away, or as
/// far as rounding in the accumulation type leads when a few numbers below 100 cancel out.
[[nodiscard]] bool close_enough(DType dtype, double got, double expected);

}  // namespace hora::testing
