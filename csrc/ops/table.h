#pragma once

#include <array>
#include <span>

#include "base/buffer.h"
#include "core/batch.h"
#include "core/op.h"
#include "core/submission.h"
#include "transport/group.h"

namespace hora {

/// What a host implementation works with: the ranks taking part, and memory that the backend keeps.
struct HostCall {
  const Group& group;
  const Batch& batch;
  std::span<Submission*> tensors;  ///< in the order of the batch's entries
  Buffer& staging;                 ///< for tensors that travel packed
  Buffer& scratch;                 ///< for the algorithm
};

/// One row of the table: all that an op means.
struct OpSpec {
  OpKind kind;
  bool fusable;       ///< tensors that differ only in name and shape may share a batch
  bool ragged_first;  ///< the first dimension may differ between ranks
  /// Throws what is wrong with the arguments on this rank; `size` is the number of ranks taking part.
  void (*check)(const Submission& submission, int size);
  void (*run_on_host)(const HostCall& call);
};

[[nodiscard]] const OpSpec& op_spec(OpKind kind);
[[nodiscard]] std::array<bool, kOpCount> fusable_ops();

/// The attributes of a submission that all ranks must share.
[[nodiscard]] Shape agreed_shape(const OpSpec& spec, const Shape& shape);

}  // namespace hora
