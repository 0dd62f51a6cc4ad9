#include "ops/scaling.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "collectives/convert.h"
#include "collectives/reduce.h"

namespace hora {

Scaling scaling_of(const Batch& batch, DType dtype) {
  const Signature& signature = batch.signature();
  Scaling scaling{signature.prescale, signature.postscale};
  if (signature.reduce != ReduceOp::kAverage) return scaling;
  if (is_half(dtype)) {
    scaling.before /= batch.divisor;
  } else if (info(dtype).is_floating) {
    scaling.after /= batch.divisor;
  } else {
    scaling.divisor = batch.divisor;
  }
  return scaling;
}

Reduction reduction_of(const Batch& batch, DType dtype) {
  const Scaling scaling = scaling_of(batch, dtype);
  return {dtype, batch.signature().reduce, scaling.before, scaling.after, scaling.divisor};
}

void check_reduction(const Signature& signature) {
  if (signature.wire && (signature.device == DeviceKind::kHost || !is_half(*signature.wire)))
    raise(ErrorKind::kInvalidArgument, "only numbers on GPUs can travel as others, and only as halves");
  if (std::isnan(signature.prescale) || std::isnan(signature.postscale)) {
    raise(ErrorKind::kInvalidArgument, "prescale_factor and postscale_factor must be numbers, not NaN");
  }
  if (std::ranges::find(signature.tensors, DType::kBool, &TensorType::dtype) == signature.tensors.end())
    return;
  if (signature.reduce == ReduceOp::kAverage) {
    raise(ErrorKind::kInvalidArgument,
          "op Average is not defined for bool; Sum and Max are logical or, Product and Min logical and");
  }
  if (signature.prescale != 1.0 || signature.postscale != 1.0) {
    raise(ErrorKind::kInvalidArgument, "bool values cannot be scaled");
  }
}

void load_operand(const OpTensor& tensor, ReduceOp reduce, const Scaling& scaling, std::size_t first,
                  std::size_t count, std::byte* destination) {
  const DType dtype = tensor.type->dtype;
  if (tensor.is_absent) {
    fill_identity(destination, count, accumulation_type(dtype), reduce);
  } else {
    widen(tensor.local.input + first * size_of(dtype), dtype, destination, count, scaling.before);
  }
}

}  // namespace hora
