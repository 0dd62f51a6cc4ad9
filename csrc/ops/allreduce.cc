#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "collectives/chunks.h"
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

/// Packs the tensors one after another in accumulation type.
void load(const HostCall& call, const Scaling& scaling, std::byte* at) {
  for (const Submission* tensor : call.tensors) {
    const TensorRef& input = tensor->input;
    widen(input.data, input.dtype, at, input.count(), scaling.before);
    at += input.count() * size_of(accumulation_type(input.dtype));
  }
}

/// Unpacks them from their own type.
void store(const HostCall& call, const std::byte* at) {
  for (const Submission* tensor : call.tensors) {
    const std::size_t bytes = tensor->output.bytes();
    if (at != tensor->output.data) std::copy_n(at, bytes, tensor->output.data);
    at += bytes;
  }
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

/// Each rank finishes the chunk that it has reduced, so that scaling and rounding cost 1/size of the data and
/// halves travel as halves in the second half of the ring.
void allreduce_on_host(const HostCall& call) {
  const Signature& signature = call.batch.signature();
  const DType dtype = signature.dtype;
  const DType type = accumulation_type(dtype);
  const Scaling scaling = scaling_of(signature, call.group.size());

  std::size_t count = 0;
  for (const Submission* tensor : call.tensors) count += tensor->input.count();
  // A single tensor is put together where the result belongs.
  std::byte* const output = call.tensors.size() == 1 ? call.tensors[0]->output.data : nullptr;
  const std::size_t bytes = count * size_of(type);
  std::byte* const sums = output != nullptr && type == dtype ? output : call.staging.at_least(bytes).data();
  load(call, scaling, sums);
  const int own = ring_reduce_scatter(call.group, {sums, bytes}, type, signature.reduce, call.scratch);

  std::byte* results = output;
  if (results == nullptr)
    results = type == dtype ? sums : call.scratch.at_least(count * size_of(dtype)).data();
  const Chunks chunks(count, call.group.size());
  std::byte* const own_sums = sums + chunks.first(own) * size_of(type);
  if (scaling.divisor != 1) divide(own_sums, type, chunks.length(own), scaling.divisor);
  narrow(own_sums, dtype, results + chunks.first(own) * size_of(dtype), chunks.length(own), scaling.after);
  ring_allgather(call.group, {results, count * size_of(dtype)},
                 chunk_bounds(call.group, count, size_of(dtype)), own);
  store(call, results);
}

}  // namespace hora
