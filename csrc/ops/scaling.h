#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/kernels.h"
#include "core/batch.h"
#include "ops/table.h"

namespace hora {

/// How a rank's values are multiplied before and after a reduction, and by what integers are divided.
///
/// Average divides float32 and float64 after summing. Halves are divided before, in float32, so that nothing
/// overflows whose mean fits. The wrapped sum of integers is divided and truncated toward zero. What it
/// divides by is `Batch::divisor`.
struct Scaling {
  double before = 1.0;
  double after = 1.0;
  std::int64_t divisor = 1;
};

[[nodiscard]] Scaling scaling_of(const Batch& batch, DType dtype);

/// The same for the kernels.
[[nodiscard]] Reduction reduction_of(const Batch& batch, DType dtype);

/// Throws what is wrong with reduction, dtype and factors on this rank.
void check_reduction(const Signature& signature);

/// Copies `count` elements of a tensor from its element `first` on into accumulation type, scaled; a rank
/// that has joined contributes the identity of the reduction instead.
void load_operand(const OpTensor& tensor, ReduceOp reduce, const Scaling& scaling, std::size_t first,
                  std::size_t count, std::byte* destination);

}  // namespace hora
