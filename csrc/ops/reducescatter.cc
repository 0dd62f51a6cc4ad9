#include <algorithm>
#include <vector>

#include "base/error.h"
#include "collectives/chunks.h"
#include "collectives/convert.h"
#include "collectives/ring.h"
#include "collectives/shared_memory/shared_memory.h"
#include "ops/device_reduction.h"
#include "ops/ops.h"
#include "ops/scaling.h"

namespace hora {
namespace {

/// How the rows of one tensor are shared out among the members.
struct Rows {
  Chunks chunks;
  std::size_t elements;  ///< in one row

  [[nodiscard]] std::size_t first(int rank) const { return chunks.first(rank) * elements; }
  [[nodiscard]] std::size_t length(int rank) const { return chunks.length(rank) * elements; }
};

template <typename OpCall>
std::vector<Rows> rows_of(const OpCall& call) {
  std::vector<Rows> rows;
  for (const OpTensor& tensor : call.tensors) {
    const std::span<const std::int64_t> shape = tensor.type->shape;
    rows.push_back({Chunks(static_cast<std::size_t>(shape.front()), call.group.size()),
                    static_cast<std::size_t>(element_count(shape.subspan(1)))});
  }
  return rows;
}

void reducescatter_in_slots(const HostCall& call, const std::vector<Rows>& rows) {
  std::vector<Pieces> parts;
  for (int rank = 0; rank < call.group.size(); ++rank) {
    Pieces& part = parts.emplace_back(size_of(call.dtype));
    for (std::size_t tensor = 0; tensor < rows.size(); ++tensor) {
      const LocalTensor& local = call.tensors[tensor].local;
      const std::byte* const input =
          local.input == nullptr ? nullptr : local.input + rows[tensor].first(rank) * part.element_bytes();
      part.add(input, rank == call.group.rank() ? local.output : nullptr, rows[tensor].length(rank));
    }
  }
  shared_reduce_scatter(*call.group.slots(), parts, reduction_of(call.batch, call.dtype),
                        call.all_contribute(), call.batch.route);
}

}  // namespace

void check_reducescatter(const Submission& submission, const std::vector<int>&) {
  const Signature& signature = submission.request.signature;
  for (const TensorType& tensor : signature.tensors) {
    if (tensor.shape.empty())
      raise(ErrorKind::kInvalidArgument, "a scalar has no first dimension to scatter along");
  }
  if (signature.reduce != ReduceOp::kSum && signature.reduce != ReduceOp::kAverage) {
    raise(ErrorKind::kMismatch, "op must be Sum or Average, not {}", name(signature.reduce));
  }
  check_reduction(signature);
}

/// The staging buffer holds, rank after rank, the rows of all tensors that the rank will get.
void reducescatter_on_host(const HostCall& call) {
  const ReduceOp reduce = call.batch.signature().reduce;
  const DType type = accumulation_type(call.dtype);
  const Scaling scaling = scaling_of(call.batch, call.dtype);
  const int size = call.group.size();
  const std::vector<Rows> rows = rows_of(call);
  if (call.group.slots() != nullptr) return reducescatter_in_slots(call, rows);

  std::vector<std::size_t> bounds{0};
  for (int rank = 0; rank < size; ++rank) {
    std::size_t elements = 0;
    for (const Rows& each : rows) elements += each.length(rank);
    bounds.push_back(bounds.back() + elements * size_of(type));
  }
  const std::span<std::byte> data = call.staging.at_least(bounds.back());
  std::byte* at = data.data();
  for (int rank = 0; rank < size; ++rank) {
    for (std::size_t tensor = 0; tensor < rows.size(); ++tensor) {
      const std::size_t length = rows[tensor].length(rank);
      load_operand(call.tensors[tensor], reduce, scaling, rows[tensor].first(rank), length, at);
      at += length * size_of(type);
    }
  }
  const int own = call.group.rank();
  ring_reduce_scatter(call.group, data, bounds, type, reduce, call.scratch);
  at = data.data() + bounds[static_cast<std::size_t>(own)];
  for (std::size_t tensor = 0; tensor < rows.size(); ++tensor) {
    const std::size_t length = rows[tensor].length(own);
    const OpTensor& target = call.tensors[tensor];
    if (scaling.divisor != 1) divide(at, type, length, scaling.divisor);
    if (!target.is_absent) narrow(at, call.dtype, target.local.output, length, scaling.after);
    at += length * size_of(type);
  }
}

namespace {

/// NCCL gives every rank the same number of elements. So each rank's part, the rows of all tensors that it
/// gets, is laid out with room for as many rows of each tensor as the first rank gets; what is not used there
/// is zero.
struct DeviceParts {
  std::vector<Rows> rows;
  std::vector<std::size_t> first{
      0};  ///< where each tensor begins in a part, in elements; then where the part ends

  explicit DeviceParts(const DeviceCall& call) : rows(rows_of(call)) {
    for (const Rows& each : rows) first.push_back(first.back() + each.length(0));
  }
};

/// Elements `first` to `last` of the rows of one tensor that `rank` gets.
struct DevicePart {
  std::size_t tensor;
  std::size_t first;
  std::size_t last;
  std::size_t at;  ///< in the window
};

/// What lies in a window of a rank's part; it may reach into the unused room behind a tensor's rows.
std::vector<DevicePart> in_window(const DeviceParts& parts, int rank, std::size_t begin, std::size_t end) {
  std::vector<DevicePart> found;
  for (std::size_t tensor = 0; tensor < parts.rows.size(); ++tensor) {
    const std::size_t base = parts.first[tensor];
    const std::size_t from = std::max(begin, base);
    const std::size_t to = std::min(end, base + parts.rows[tensor].length(rank));
    if (from < to) found.push_back({tensor, from - base, to - base, from - begin});
  }
  return found;
}

void reducescatter_packed(const DeviceCall& call, const DeviceReduction& reduction) {
  const DeviceParts parts(call);
  DeviceLane& lane = call.lane;
  const std::size_t size = size_of(call.dtype);
  const std::size_t wire = size_of(reduction.wire);
  const auto ranks = static_cast<std::size_t>(call.group.size());
  const std::size_t most = std::max<std::size_t>(lane.staging().size() / wire / ranks, 1);
  std::byte* const staging = lane.staging().data();
  for (std::size_t begin = 0; begin < parts.first.back(); begin += most) {
    const std::size_t length = std::min(most, parts.first.back() - begin);
    lane.fill(staging, length * ranks, reduction.wire, ReduceOp::kSum);
    std::vector<DeviceMove> loads;
    for (int rank = 0; rank < call.group.size(); ++rank) {
      std::byte* const window = staging + static_cast<std::size_t>(rank) * length * wire;
      for (const auto& [tensor, first, last, at] : in_window(parts, rank, begin, begin + length)) {
        const OpTensor& source = call.tensors[tensor];
        if (source.is_absent) continue;
        loads.push_back({source.local.input + (parts.rows[tensor].first(rank) + first) * size,
                         window + at * wire, last - first});
      }
    }
    lane.move(loads, reduction.load);
    std::byte* const own = staging + static_cast<std::size_t>(call.group.rank()) * length * wire;
    lane.reduce_scatter(staging, own, length, reduction.wire, reduction.reduce);
    std::vector<DeviceMove> stores;
    for (const auto& [tensor, first, last, at] : in_window(parts, call.group.rank(), begin, begin + length)) {
      const OpTensor& target = call.tensors[tensor];
      if (!target.is_absent)
        stores.push_back({own + at * wire, target.local.output + first * size, last - first});
    }
    lane.move(stores, reduction.store);
  }
}

}  // namespace

/// A single tensor whose rows can be shared out evenly goes as it is.
void reducescatter_on_device(const DeviceCall& call) {
  const DeviceReduction reduction =
      device_reduction_of(call.batch, call.dtype, call.group.size(), call.lane.has_kernels());
  const OpTensor& tensor = call.tensors.front();
  const bool is_even = tensor.type->shape.front() % call.group.size() == 0;
  if (reduction.is_plain() && call.all_contribute() && call.tensors.size() == 1 && is_even) {
    const std::size_t count = tensor.type->count() / static_cast<std::size_t>(call.group.size());
    call.lane.reduce_scatter(tensor.local.input, tensor.local.output, count, reduction.wire,
                             reduction.reduce);
    return;
  }
  if (!call.lane.has_kernels())
    raise(ErrorKind::kMismatch,
          "this reducescatter needs hora's packing kernels, which not every rank could load");
  reducescatter_packed(call, reduction);
}

}  // namespace hora
