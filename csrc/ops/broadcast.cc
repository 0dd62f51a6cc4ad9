#include "collectives/broadcast.h"

#include <algorithm>

#include "base/error.h"
#include "ops/ops.h"

namespace hora {
namespace {

void copy_to_output(const Submission& tensor) {
  if (tensor.input.data != tensor.output.data)
    std::copy_n(tensor.input.data, tensor.input.bytes(), tensor.output.data);
}

void broadcast_packed(const HostCall& call, int root) {
  std::size_t bytes = 0;
  for (const Submission* tensor : call.tensors) bytes += tensor->output.bytes();
  const std::span<std::byte> data = call.staging.at_least(bytes);
  const bool is_root = call.group.rank() == root;
  std::byte* at = data.data();
  for (const Submission* tensor : call.tensors) {
    if (is_root) std::copy_n(tensor->input.data, tensor->input.bytes(), at);
    at += tensor->input.bytes();
  }
  binomial_broadcast(call.group, data, root);
  at = data.data();
  for (const Submission* tensor : call.tensors) {
    if (is_root) {
      copy_to_output(*tensor);
    } else {
      std::copy_n(at, tensor->output.bytes(), tensor->output.data);
    }
    at += tensor->output.bytes();
  }
}

}  // namespace

void check_broadcast(const Submission& submission, int size) {
  const std::int64_t root = submission.request.signature.root;
  if (root < 0 || root >= size) {
    raise(ErrorKind::kInvalidArgument, "root_rank {} is not one of the ranks 0 to {}", root, size - 1);
  }
}

void broadcast_on_host(const HostCall& call) {
  const int root = call.group.index_of(static_cast<int>(call.batch.signature().root));
  if (call.tensors.size() > 1) return broadcast_packed(call, root);
  const Submission& tensor = *call.tensors[0];
  if (call.group.rank() == root) copy_to_output(tensor);
  binomial_broadcast(call.group, {tensor.output.data, tensor.output.bytes()}, root);
}

}  // namespace hora
