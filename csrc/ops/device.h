#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/dtype.h"
#include "core/batch.h"
#include "core/op.h"
#include "ops/table.h"
#include "transport/group.h"

namespace hora {

/// A run of elements that is copied on a device.
struct DeviceMove {
  const std::byte* from;
  std::byte* to;
  std::size_t count;
};

/// What becomes of values while they are moved.
struct Conversion {
  DType from;
  DType to;
  double scale = 1.0;
  std::int64_t divisor = 1;  ///< of integers, truncating

  [[nodiscard]] bool changes_nothing() const { return from == to && scale == 1.0 && divisor == 1; }
};

/// What one device does for the ranks of a batch, in the order in which it is told. Nothing here waits for
/// the device, and addresses are the device's: the host must not touch what they point to. Ranks count within
/// the group.
class DeviceLane {
 public:
  virtual ~DeviceLane() = default;

  /// Whether `move` and `fill` are there; the same on all ranks. Without them only whole tensors can be given
  /// to the collectives.
  [[nodiscard]] virtual bool has_kernels() const = 0;
  /// Memory for tensors that travel packed; as large on every rank.
  [[nodiscard]] virtual std::span<std::byte> staging() = 0;
  /// Whether memory was put aside for every result, as large as if all ranks passed as many rows as this one.
  [[nodiscard]] virtual bool has_reserves() const = 0;
  /// Memory for a result; null when there is not enough.
  [[nodiscard]] virtual std::shared_ptr<std::byte[]> allocate(std::size_t bytes) = 0;

  virtual void move(std::span<const DeviceMove> moves, const Conversion& conversion) = 0;
  /// Writes the identity of a reduction.
  virtual void fill(std::byte* to, std::size_t count, DType dtype, ReduceOp reduce) = 0;

  /// Collectives between the two are given to NCCL as one; none of them may use what another one writes.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;

  /// Sum, Average (exactly: all ranks contribute, and it divides by their number), Min, Max or Product.
  virtual void all_reduce(const std::byte* from, std::byte* to, std::size_t count, DType dtype,
                          ReduceOp reduce) = 0;
  /// `count` elements for each rank.
  virtual void reduce_scatter(const std::byte* from, std::byte* to, std::size_t count, DType dtype,
                              ReduceOp reduce) = 0;
  virtual void broadcast(const std::byte* from, std::byte* to, std::size_t bytes, int root) = 0;
  /// `bytes` of each rank.
  virtual void all_gather(const std::byte* from, std::byte* to, std::size_t bytes) = 0;
  /// `bytes` of each rank for each rank; every rank has told the others the same number.
  virtual void all_to_all(const std::byte* from, std::byte* to, std::size_t bytes) = 0;
  virtual void send(const std::byte* from, std::size_t bytes, int peer) = 0;
  virtual void receive(std::byte* to, std::size_t bytes, int peer) = 0;
};

/// What a device implementation works with: tensors of one dtype, the ranks that take part, and their device.
/// `group` carries what has to be known on the host first.
struct DeviceCall {
  const Group& group;
  const Batch& batch;
  DType dtype;
  std::span<const OpTensor> tensors;
  DeviceLane& lane;

  [[nodiscard]] bool all_contribute() const { return batch.contributors == group.size(); }
};

}  // namespace hora
