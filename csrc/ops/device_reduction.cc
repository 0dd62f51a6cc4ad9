#include "ops/device_reduction.h"

#include <bit>

#include "base/error.h"
#include "ops/scaling.h"

namespace hora {
namespace {

/// Whether NCCL's own average gives the value that we want.
bool averages_exactly(const Batch& batch, DType dtype, int members) {
  const Signature& signature = batch.signature();
  return signature.reduce == ReduceOp::kAverage && signature.prescale == 1.0 && signature.postscale == 1.0 &&
         batch.divisor == members && dtype != DType::kInt16 &&
         (!is_half(dtype) || std::has_single_bit(static_cast<unsigned>(members)));
}

DType wire_type(DType dtype) {
  if (dtype == DType::kInt16) return DType::kInt32;
  return dtype == DType::kBool ? DType::kUInt8 : dtype;
}

/// Of bytes that are 0 or 1, the greatest is logical or, the least logical and.
ReduceOp of_truth_values(ReduceOp reduce) {
  return reduce == ReduceOp::kSum || reduce == ReduceOp::kMax ? ReduceOp::kMax : ReduceOp::kMin;
}

/// What is left to NCCL of an average whose division we do.
ReduceOp summed(ReduceOp reduce) {
  return reduce == ReduceOp::kAverage ? ReduceOp::kSum : reduce;
}

}  // namespace

DeviceReduction device_reduction_of(const Batch& batch, DType dtype, int members, bool may_convert) {
  if (const auto half = batch.signature().wire;
      half && may_convert && info(dtype).is_floating && size_of(*half) < size_of(dtype)) {
    const Scaling scaling =
        scaling_of(batch, *half);  // an average is divided first, so that it does not overflow
    return {*half,
            summed(batch.signature().reduce),
            {dtype, *half, scaling.before},
            {*half, dtype, scaling.after}};
  }
  const DType wire = wire_type(dtype);
  const ReduceOp reduce = batch.signature().reduce;
  if (dtype == DType::kBool) return {wire, of_truth_values(reduce), {wire, wire}, {wire, wire}};
  if (averages_exactly(batch, dtype, members)) return {wire, reduce, {dtype, wire}, {wire, dtype}};
  const Scaling scaling = scaling_of(batch, dtype);
  return {wire, summed(reduce), {dtype, wire, scaling.before}, {wire, dtype, scaling.after, scaling.divisor}};
}

void require_kernels(const DeviceCall& call, const DeviceReduction& reduction) {
  if (call.lane.has_kernels() || (reduction.is_plain() && call.all_contribute())) return;
  raise(ErrorKind::kMismatch,
        "factors, averages of halves or of few contributors, and int16 need hora's packing kernels, which "
        "not every rank "
        "could load");
}

}  // namespace hora
