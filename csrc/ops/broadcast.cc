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
  for (const HostTensor& tensor : call.tensors) bytes += tensor.type->bytes();
  const std::span<std::byte> data = call.staging.at_least(bytes);

  std::byte* at = data.data();
  if (call.group.rank() == root) {
    for (const HostTensor& tensor : call.tensors)
      at = std::copy_n(tensor.local.input, tensor.type->bytes(), at);
  }
  binomial_broadcast(call.group, data, root);
  at = data.data();
  for (const HostTensor& tensor : call.tensors) {
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
  const HostTensor& tensor = call.tensors.front();
  if (call.tensors.size() > 1 || tensor.is_absent) return broadcast_packed(call, root);
  const std::size_t bytes = tensor.type->bytes();
  const auto [input, output, rows] = tensor.local;
  if (call.group.rank() == root && input != output) std::copy_n(input, bytes, output);
  binomial_broadcast(call.group, {output, bytes}, root);
}

}  // namespace hora
