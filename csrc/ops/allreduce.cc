#include <cmath>

#include "base/error.h"
#include "collectives/convert.h"
#include "collectives/ring.h"
#include "ops/ops.h"

namespace hora {
namespace {

/// How one rank's values are multiplied before and after the reduction, and by what integers are divided.
///
/// Average divides float32 and float64 after summing. Halves are divided before, in float32, so that nothing
/// overflows whose mean fits. The wrapped sum of integers is divided and truncated toward zero.
struct Scaling {
  double before;
  double after;
  std::int64_t divisor = 1;
};

Scaling scaling_of(const Signature& signature, int size) {
  Scaling scaling{signature.prescale, signature.postscale};
  if (signature.reduce != ReduceOp::kAverage) return scaling;
  if (is_half(signature.dtype)) {
    scaling.before /= size;
  } else if (info(signature.dtype).is_floating) {
    scaling.after /= size;
  } else {
    scaling.divisor = size;
  }
  return scaling;
}

void load(const Submission& tensor, const Scaling& scaling, std::byte* destination) {
  widen(tensor.input.data, tensor.input.dtype, destination, tensor.input.count(), scaling.before);
}

void store(const std::byte* source, const Submission& tensor, const Scaling& scaling) {
  narrow(source, tensor.output.dtype, tensor.output.data, tensor.output.count(), scaling.after);
}

}  // namespace

void check_allreduce(const Submission& submission, int) {
  const Signature& signature = submission.request.signature;
  if (signature.reduce == ReduceOp::kAdasum)
    raise(ErrorKind::kInvalidArgument, "op Adasum is not available yet");
  if (std::isnan(signature.prescale) || std::isnan(signature.postscale)) {
    raise(ErrorKind::kInvalidArgument, "prescale_factor and postscale_factor must be numbers, not NaN");
  }
  if (signature.dtype != DType::kBool) return;
  if (signature.reduce == ReduceOp::kAverage) {
    raise(ErrorKind::kInvalidArgument,
          "op Average is not defined for bool; Sum and Max are logical or, Product and Min logical and");
  }
  if (signature.prescale != 1.0 || signature.postscale != 1.0) {
    raise(ErrorKind::kInvalidArgument, "bool values cannot be scaled");
  }
}

void allreduce_on_host(const HostCall& call) {
  const Signature& signature = call.batch.signature();
  const DType type = accumulation_type(signature.dtype);
  const Scaling scaling = scaling_of(signature, call.group.size());

  std::size_t count = 0;
  for (const Submission* tensor : call.tensors) count += tensor->input.count();
  // A single tensor that accumulates in its own type is reduced where the result belongs.
  const bool in_output = call.tensors.size() == 1 && type == signature.dtype;
  const std::size_t bytes = count * size_of(type);
  const std::span<std::byte> data =
      in_output ? std::span(call.tensors[0]->output.data, bytes) : call.staging.at_least(bytes);

  std::byte* at = data.data();
  for (const Submission* tensor : call.tensors) {
    load(*tensor, scaling, at);
    at += tensor->input.count() * size_of(type);
  }
  ring_allreduce(call.group, data, type, signature.reduce, call.scratch);
  if (scaling.divisor != 1) divide(data.data(), type, count, scaling.divisor);
  at = data.data();
  for (const Submission* tensor : call.tensors) {
    store(at, *tensor, scaling);
    at += tensor->output.count() * size_of(type);
  }
}

}  // namespace hora
