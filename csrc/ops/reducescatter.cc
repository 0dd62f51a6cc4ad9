#include <vector>

#include "base/error.h"
#include "collectives/chunks.h"
#include "collectives/convert.h"
#include "collectives/ring.h"
#include "collectives/shared_memory/shared_memory.h"
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

std::vector<Rows> rows_of(const HostCall& call) {
  std::vector<Rows> rows;
  for (const HostTensor& tensor : call.tensors) {
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
    const HostTensor& target = call.tensors[tensor];
    if (scaling.divisor != 1) divide(at, type, length, scaling.divisor);
    if (!target.is_absent) narrow(at, call.dtype, target.local.output, length, scaling.after);
    at += length * size_of(type);
  }
}

}  // namespace hora
