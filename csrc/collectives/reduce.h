#pragma once

#include <cstddef>

#include "base/dtype.h"
#include "core/op.h"

namespace hora {

/// accumulator[i] = accumulator[i] (op) operand[i] for `count` elements. Half types are not accepted: they
/// are accumulated as float32 (see `accumulation_type`).
///
/// Integers wrap around. bool: Sum and Max are logical or, Product and Min logical and. Min and Max return
/// NaN where either side is NaN. Average adds like Sum.
void reduce_into(void* accumulator, const void* operand, std::size_t count, DType dtype, ReduceOp op);

/// Fills with the element that changes nothing when it is reduced: 0 for Sum, Average and Adasum, 1 for
/// Product, the highest value for Min and the lowest for Max.
void fill_identity(void* destination, std::size_t count, DType dtype, ReduceOp op);

}  // namespace hora
