#include "collectives/broadcast.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "collectives/hierarchical/hierarchical.h"
#include "collectives/shared_memory/shared_memory.h"
#include "core/rank_set.h"
#include "ops/ops.h"

namespace hora {
namespace {

void broadcast_packed(const HostCall& call, int root) {
  std::size_t bytes = 0;
  for (const OpTensor& tensor : call.tensors) bytes += tensor.type->bytes();
  const std::span<std::byte> data = call.staging.at_least(bytes);

  std::byte* at = data.data();
  if (call.group.rank() == root) {
    for (const OpTensor& tensor : call.tensors)
      at = std::copy_n(tensor.local.input, tensor.type->bytes(), at);
  }
  binomial_broadcast(call.group, data, root);
  at = data.data();
  for (const OpTensor& tensor : call.tensors) {
    const std::size_t length = tensor.type->bytes();
    if (!tensor.is_absent) std::copy_n(at, length, tensor.local.output);
    at += length;
  }
}

}  // namespace

void check_broadcast(const Submission& submission, const std::vector<int>& members) {
  const std::int64_t root = submission.request.signature.root;
  if (!std::ranges::binary_search(members, root)) {
    raise(ErrorKind::kInvalidArgument, "root_rank {} is not one of the ranks {}", root,
          RankSet(members).to_string());
  }
}

void broadcast_on_host(const HostCall& call) {
  const int root = call.group.index_of(static_cast<int>(call.batch.signature().root));
  if (call.group.slots() != nullptr)
    return shared_broadcast(*call.group.slots(), call.pieces(), root, call.batch.route);
  if (call.group.hosts() != nullptr)
    return hierarchical_broadcast(call.group, call.pieces(), root, call.batch.route, call.staging);
  const OpTensor& tensor = call.tensors.front();
  if (call.tensors.size() > 1 || tensor.is_absent) return broadcast_packed(call, root);
  const std::size_t bytes = tensor.type->bytes();
  const auto [input, output, rows] = tensor.local;
  if (call.group.rank() == root && input != output) std::copy_n(input, bytes, output);
  binomial_broadcast(call.group, {output, bytes}, root);
}

namespace {

/// A rank that has joined has no tensors; it takes part with the staging memory, so all cut their tensors
/// alike.
void broadcast_in_pieces(const DeviceCall& call, int root) {
  const std::span<std::byte> staging = call.lane.staging();
  for (const OpTensor& tensor : call.tensors) {
    for (std::size_t first = 0; first < tensor.type->bytes(); first += staging.size()) {
      const std::size_t bytes = std::min(staging.size(), tensor.type->bytes() - first);
      const bool is_absent = tensor.is_absent;
      call.lane.broadcast(is_absent ? staging.data() : tensor.local.input + first,
                          is_absent ? staging.data() : tensor.local.output + first, bytes, root);
    }
  }
}

}  // namespace

/// NCCL fuses the calls of a group itself.
void broadcast_on_device(const DeviceCall& call) {
  const int root = call.group.index_of(static_cast<int>(call.batch.signature().root));
  if (!call.all_contribute()) return broadcast_in_pieces(call, root);
  call.lane.begin_group();
  for (const OpTensor& tensor : call.tensors)
    call.lane.broadcast(tensor.local.input, tensor.local.output, tensor.type->bytes(), root);
  call.lane.end_group();
}

}  // namespace hora
