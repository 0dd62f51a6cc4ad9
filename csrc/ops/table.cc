#include "ops/table.h"

#include "ops/ops.h"

namespace hora {
namespace {

constexpr std::array<OpSpec, kOpCount> kTable{{
    {OpKind::kAllreduce, true, false, check_allreduce, allreduce_on_host},
    {OpKind::kAllgather, false, true, check_allgather, allgather_on_host},
    {OpKind::kBroadcast, true, false, check_broadcast, broadcast_on_host},
    {OpKind::kBarrier, false, false, check_barrier, barrier_on_host},
}};

}  // namespace

const OpSpec& op_spec(OpKind kind) {
  return kTable[static_cast<std::size_t>(kind)];
}

std::array<bool, kOpCount> fusable_ops() {
  std::array<bool, kOpCount> fusable{};
  for (const OpSpec& spec : kTable) fusable[static_cast<std::size_t>(spec.kind)] = spec.fusable;
  return fusable;
}

Shape agreed_shape(const OpSpec& spec, const Shape& shape) {
  Shape agreed = shape;
  if (spec.ragged_first && !agreed.empty()) agreed.front() = Signature::kRagged;
  return agreed;
}

}  // namespace hora
