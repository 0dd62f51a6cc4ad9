#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collectives/ring.h"
#include "collectives/shared_memory/shared_memory.h"
#include "ops/device_results.h"
#include "ops/host_results.h"
#include "ops/numbers.h"
#include "ops/ops.h"

namespace hora {
namespace {

/// A rank that has joined contributes no rows.
std::int64_t own_rows(const OpTensor& tensor) {
  return tensor.is_absent ? 0 : tensor.local.rows;
}

/// Describes the result, all but its memory, when the rows of all ranks are known; returns which bytes of it
/// each rank brings.
std::vector<std::size_t> describe_result(const Group& group, const OpTensor& tensor,
                                         std::vector<std::int64_t> rows) {
  std::vector<std::size_t> bounds = row_bounds(group, rows, tensor.type->row_bytes());
  Output& output = *tensor.result;
  output = {nullptr, tensor.type->shape, tensor.type->dtype, std::move(rows), -1};
  output.shape.front() = std::accumulate(output.sizes.begin(), output.sizes.end(), std::int64_t{0});
  return bounds;
}

void allgather_one(const HostCall& call, const OpTensor& tensor) {
  const Group& group = call.group;
  const std::vector<std::size_t> bounds =
      describe_result(group, tensor, gather_numbers(group, own_rows(tensor)));
  Output& output = *tensor.result;
  allocate_result(call, tensor, bounds.back());
  const auto own = static_cast<std::size_t>(group.rank());
  std::copy_n(tensor.local.input, bounds[own + 1] - bounds[own], output.data.get() + bounds[own]);
  if (group.slots() != nullptr) {
    shared_allgather(*group.slots(), {output.data.get(), bounds.back()}, bounds, call.batch.route);
  } else {
    ring_allgather(group, {output.data.get(), bounds.back()}, bounds);
  }
}

}  // namespace

void check_allgather(const Submission& submission, const std::vector<int>&) {
  for (const TensorType& tensor : submission.request.signature.tensors) {
    if (!tensor.shape.empty()) continue;
    raise(ErrorKind::kMismatch,
          "a scalar has no first dimension to gather along; pass a tensor of shape [1]");
  }
}

void allgather_on_host(const HostCall& call) {
  for (const OpTensor& tensor : call.tensors) allgather_one(call, tensor);
}

namespace {

void give_to_lane(const DeviceCall& call, const OpTensor& tensor, const std::vector<std::size_t>& bounds) {
  std::byte* const result = tensor.result->data.get();
  if (are_equal(tensor.result->sizes)) {
    call.lane.all_gather(tensor.local.input, result, bounds[1]);
    return;
  }
  for (int rank = 0; rank < call.group.size(); ++rank) {
    const std::size_t first = bounds[static_cast<std::size_t>(rank)];
    const std::size_t bytes = bounds[static_cast<std::size_t>(rank) + 1] - first;
    const std::byte* const from = rank == call.group.rank() ? tensor.local.input : result + first;
    if (bytes > 0) call.lane.broadcast(from, result + first, bytes, rank);
  }
}

}  // namespace

void allgather_on_device(const DeviceCall& call) {
  std::vector<std::vector<std::size_t>> bounds;
  bool is_reserved = true;
  for (const OpTensor& tensor : call.tensors) {
    std::vector<std::int64_t> rows =
        gather_numbers(call.group, mark_rows(own_rows(tensor), call.lane.has_reserves()));
    is_reserved = unmark_rows(rows) && is_reserved;
    bounds.push_back(describe_result(call.group, tensor, std::move(rows)));
  }
  allocate_results(call, is_reserved);
  call.lane.begin_group();
  for (std::size_t tensor = 0; tensor < bounds.size(); ++tensor)
    give_to_lane(call, call.tensors[tensor], bounds[tensor]);
  call.lane.end_group();
}

}  // namespace hora
