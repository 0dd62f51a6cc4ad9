#include "ops/table.h"

#include "ops/ops.h"

namespace hora {
namespace {

constexpr std::array<OpSpec, kOpCount> kTable{{
    {OpKind::kAllreduce, true, false, check_allreduce, allreduce_on_host, allreduce_on_device},
    {OpKind::kAllgather, false, true, check_allgather, allgather_on_host, allgather_on_device},
    {OpKind::kBroadcast, true, false, check_broadcast, broadcast_on_host, broadcast_on_device},
    {OpKind::kBarrier, false, false, check_nothing, nullptr, nullptr},
    {OpKind::kAlltoall, false, true, check_alltoall, alltoall_on_host, alltoall_on_device},
    {OpKind::kReducescatter, true, false, check_reducescatter, reducescatter_on_host,
     reducescatter_on_device},
    {OpKind::kJoin, false, false, check_nothing, nullptr, nullptr},
    {OpKind::kAddProcessSet, false, false, check_process_set, nullptr, nullptr},
    {OpKind::kRemoveProcessSet, false, false, check_process_set, nullptr, nullptr},
}};

}  // namespace

Pieces HostCall::pieces() const {
  Pieces pieces(size_of(dtype));
  for (const OpTensor& tensor : tensors)
    pieces.add(tensor.local.input, tensor.local.output, tensor.type->count());
  return pieces;
}

const OpSpec& op_spec(OpKind kind) {
  return kTable[static_cast<std::size_t>(kind)];
}

std::array<bool, kOpCount> fusable_ops() {
  std::array<bool, kOpCount> fusable{};
  for (const OpSpec& spec : kTable) fusable[static_cast<std::size_t>(spec.kind)] = spec.fusable;
  return fusable;
}

}  // namespace hora
