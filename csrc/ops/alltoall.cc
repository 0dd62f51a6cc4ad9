#include "collectives/alltoall.h"

#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "collectives/shared_memory/shared_memory.h"
#include "ops/device_results.h"
#include "ops/host_results.h"
#include "ops/numbers.h"
#include "ops/ops.h"

namespace hora {
namespace {

/// What one member tells another before it sends.
struct Rows {
  std::int64_t sent;  ///< to that member
  std::int64_t all;   ///< to any
};

/// The first step of the operation.
std::vector<Rows> exchange_rows(const Group& group, std::span<const std::int64_t> splits) {
  const std::int64_t all = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
  std::vector<Rows> told;
  for (const std::int64_t rows : splits) told.push_back({rows, all});
  std::vector<Rows> heard(told.size());
  std::vector<std::size_t> bounds;
  for (std::size_t rank = 0; rank <= told.size(); ++rank) bounds.push_back(rank * sizeof(Rows));
  pairwise_alltoall(group, std::as_bytes(std::span(told)), bounds, std::as_writable_bytes(std::span(heard)),
                    bounds);
  return heard;
}

void alltoall_one(const HostCall& call, const OpTensor& tensor) {
  const Group& group = call.group;
  // A rank that has joined sends nothing to anyone.
  std::vector<std::int64_t> splits(tensor.splits.begin(), tensor.splits.end());
  splits.resize(static_cast<std::size_t>(group.size()));
  Slots* const slots = group.slots();
  const std::size_t row_bytes = tensor.type->row_bytes();
  std::vector<std::size_t> bytes;  // for each pair of ranks, where they share memory
  std::size_t together = 0;        // bytes that all ranks send
  Output& output = *tensor.result;
  output = {nullptr, tensor.type->shape, tensor.type->dtype, {}, -1};
  if (slots != nullptr) {
    const std::vector<std::int64_t> all = shared_exchange(*slots, splits);
    for (int from = 0; from < group.size(); ++from) {
      const auto told = std::span(all).subspan(static_cast<std::size_t>(from) * splits.size(), splits.size());
      for (const std::int64_t rows : told) bytes.push_back(bytes_of_rows(group, from, rows, row_bytes));
      output.sizes.push_back(told[static_cast<std::size_t>(group.rank())]);
    }
    together = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  } else {
    const std::vector<Rows> told = exchange_rows(group, splits);
    for (int from = 0; from < group.size(); ++from) {
      const auto [sent, all] = told[static_cast<std::size_t>(from)];
      output.sizes.push_back(sent);
      together += bytes_of_rows(group, from, all, row_bytes);
    }
  }
  const std::vector<std::size_t> send_bounds = row_bounds(group, splits, row_bytes);
  const std::vector<std::size_t> receive_bounds = row_bounds(group, output.sizes, row_bytes);
  output.shape.front() = std::accumulate(output.sizes.begin(), output.sizes.end(), std::int64_t{0});
  allocate_result(call, tensor, together);
  const std::span<const std::byte> source(tensor.local.input, send_bounds.back());
  const std::span<std::byte> destination(output.data.get(), receive_bounds.back());
  if (slots != nullptr) {
    shared_alltoall(*slots, source, destination, bytes, call.batch.route);
  } else {
    pairwise_alltoall(group, source, send_bounds, destination, receive_bounds);
  }
}

}  // namespace

void check_alltoall(const Submission& submission, const std::vector<int>& members) {
  for (const TensorType& tensor : submission.request.signature.tensors) {
    if (!tensor.shape.empty()) continue;
    raise(ErrorKind::kMismatch, "a scalar has no first dimension to share out; pass a tensor of shape [1]");
  }
  const std::vector<std::int64_t>& splits = submission.splits;
  if (splits.size() != members.size()) {
    raise(ErrorKind::kInvalidArgument, "splits has {} entries for {} ranks", splits.size(), members.size());
  }
  std::int64_t sum = 0;
  for (const std::int64_t rows : splits) {
    if (rows < 0) raise(ErrorKind::kInvalidArgument, "splits [{}] has a negative entry", join(splits, ","));
    sum += rows;
  }
  for (const LocalTensor& tensor : submission.tensors) {
    if (sum == tensor.rows) continue;
    raise(ErrorKind::kInvalidArgument, "splits [{}] add up to {}, but the tensor has {} rows",
          join(splits, ","), sum, tensor.rows);
  }
}

void alltoall_on_host(const HostCall& call) {
  for (const OpTensor& tensor : call.tensors) alltoall_one(call, tensor);
}

namespace {

/// Which bytes one tensor sends to each rank, and gets from it.
struct DeviceExchange {
  std::vector<std::size_t> sent;
  std::vector<std::size_t> received;
};

/// Says besides whether the result has the size that was put aside everywhere.
bool describe_exchange(const DeviceCall& call, const OpTensor& tensor, DeviceExchange& exchange) {
  std::vector<std::int64_t> splits(tensor.splits.begin(), tensor.splits.end());
  splits.resize(static_cast<std::size_t>(call.group.size()));
  const std::size_t row_bytes = tensor.type->row_bytes();
  exchange.sent = row_bounds(call.group, splits, row_bytes);
  const bool has_reserve = call.lane.has_reserves() && are_equal(splits);
  for (std::int64_t& rows : splits) rows = mark_rows(rows, has_reserve);
  Output& output = *tensor.result;
  output = {nullptr, tensor.type->shape, tensor.type->dtype, {}, -1};
  for (const Rows& rows : exchange_rows(call.group, splits)) output.sizes.push_back(rows.sent);
  const bool is_reserved = unmark_rows(output.sizes);
  exchange.received = row_bounds(call.group, output.sizes, row_bytes);
  output.shape.front() = std::accumulate(output.sizes.begin(), output.sizes.end(), std::int64_t{0});
  return is_reserved;
}

}  // namespace

void alltoall_on_device(const DeviceCall& call) {
  std::vector<DeviceExchange> exchanges(call.tensors.size());
  bool is_reserved = true;
  for (std::size_t tensor = 0; tensor < exchanges.size(); ++tensor)
    is_reserved = describe_exchange(call, call.tensors[tensor], exchanges[tensor]) && is_reserved;
  allocate_results(call, is_reserved);
  call.lane.begin_group();
  for (std::size_t tensor = 0; tensor < exchanges.size(); ++tensor) {
    const auto& [sent, received] = exchanges[tensor];
    if (is_reserved) {
      call.lane.all_to_all(call.tensors[tensor].local.input, call.tensors[tensor].result->data.get(),
                           sent[1]);
      continue;
    }
    for (std::size_t rank = 0; rank + 1 < sent.size(); ++rank) {
      const std::size_t out = sent[rank + 1] - sent[rank];
      const std::size_t in = received[rank + 1] - received[rank];
      const auto peer = static_cast<int>(rank);
      if (out > 0) call.lane.send(call.tensors[tensor].local.input + sent[rank], out, peer);
      if (in > 0) call.lane.receive(call.tensors[tensor].result->data.get() + received[rank], in, peer);
    }
  }
  call.lane.end_group();
}

}  // namespace hora
