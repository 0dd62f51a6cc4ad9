#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/faults.h"
#include "collectives/shared_memory/pieces.h"
#include "core/batch.h"
#include "core/op.h"
#include "core/submission.h"
#include "transport/group.h"

namespace hora {

/// One tensor of a batch on this rank.
struct OpTensor {
  const TensorType* type;                ///< as agreed
  LocalTensor local;                     ///< without memory where the rank is absent
  std::span<const std::int64_t> splits;  ///< of its call
  Output* result;                        ///< for an op that allocates its output
  bool is_absent;                        ///< this rank has joined and contributes nothing
};

/// What a host implementation works with: tensors of one dtype, the ranks taking part, and memory that the
/// backend keeps.
struct HostCall {
  const Group& group;
  const Batch& batch;
  DType dtype;
  std::span<const OpTensor> tensors;
  Buffer& staging;  ///< for tensors that travel packed
  Buffer& scratch;  ///< for the algorithm
  Faults& faults;   ///< to be reached at each allocation of a large result

  /// Whether no rank of the group has joined.
  [[nodiscard]] bool all_contribute() const { return batch.contributors == group.size(); }
  /// The tensors one after another.
  [[nodiscard]] Pieces pieces() const;
};

struct DeviceCall;

/// One row of the table: all that an op means.
struct OpSpec {
  OpKind kind;
  bool fusable;       ///< calls that differ only in names and shapes may share a batch
  bool ragged_first;  ///< the first dimension may differ between ranks, so the op allocates its output
  /// Throws what is wrong with the arguments on this rank; `members` are the ranks of the process set.
  void (*check)(const Submission& submission, const std::vector<int>& members);
  /// Both null where agreement is all: the batch of a barrier exists because every rank has announced it, and
  /// the engine applies joins and changes of process sets when it comes to them.
  void (*run_on_host)(const HostCall& call);
  void (*run_on_device)(const DeviceCall& call);
};

[[nodiscard]] const OpSpec& op_spec(OpKind kind);
[[nodiscard]] std::array<bool, kOpCount> fusable_ops();

}  // namespace hora
