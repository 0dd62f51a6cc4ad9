#pragma once

#include "ops/device.h"

namespace hora {

/// How values of one dtype are reduced by NCCL, which knows neither factors nor int16 nor bool, and may be
/// given halves in the place of longer numbers.
struct DeviceReduction {
  DType wire;        ///< what NCCL sees
  ReduceOp reduce;   ///< what NCCL does with it
  Conversion load;   ///< from the tensors
  Conversion store;  ///< back into them

  /// Whether tensors can be given to NCCL as they are.
  [[nodiscard]] bool is_plain() const { return load.changes_nothing() && store.changes_nothing(); }
};

/// Factors mean what they mean on the host (see Scaling). NCCL divides exactly where that is possible: not a
/// half by a number of ranks that is no power of two, because it would round the factor to the tensor's type.
/// `members` is the number of ranks in the group.
/// Without kernels, which `may_convert` tells, numbers travel as they are.
[[nodiscard]] DeviceReduction device_reduction_of(const Batch& batch, DType dtype, int members,
                                                  bool may_convert);

/// Throws Error(kMismatch), on all ranks alike, where the lane lacks the kernels that the batch needs.
void require_kernels(const DeviceCall& call, const DeviceReduction& reduction);

}  // namespace hora
