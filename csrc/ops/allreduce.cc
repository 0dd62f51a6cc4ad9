#include <algorithm>
#include <vector>

#include "base/error.h"
#include "collectives/adasum.h"
#include "collectives/chunks.h"
#include "collectives/convert.h"
#include "collectives/ring.h"
#include "collectives/shared_memory/shared_memory.h"
#include "ops/ops.h"
#include "ops/scaling.h"

namespace hora {
namespace {

/// Packs the tensors one after another in accumulation type.
void load(const HostCall& call, const Scaling& scaling, std::byte* at) {
  const std::size_t element = size_of(accumulation_type(call.dtype));
  for (const HostTensor& tensor : call.tensors) {
    const std::size_t count = tensor.type->count();
    load_operand(tensor, call.batch.signature().reduce, scaling, 0, count, at);
    at += count * element;
  }
}

/// Unpacks them from their own type.
void store(const HostCall& call, const std::byte* at) {
  for (const HostTensor& tensor : call.tensors) {
    const std::size_t bytes = tensor.type->bytes();
    if (!tensor.is_absent && at != tensor.local.output) std::copy_n(at, bytes, tensor.local.output);
    at += bytes;
  }
}

std::size_t count_of(const HostCall& call) {
  std::size_t count = 0;
  for (const HostTensor& tensor : call.tensors) count += tensor.type->count();
  return count;
}

/// The scalar products of Adasum need whole tensors, so its sums are finished on every rank.
void adasum_on_host(const HostCall& call) {
  if (call.group.slots() != nullptr) call.group.slots()->had_no_route();
  const DType type = accumulation_type(call.dtype);
  const Scaling scaling = scaling_of(call.batch, call.dtype);
  const std::span<std::byte> sums = call.staging.at_least(count_of(call) * size_of(type));
  load(call, scaling, sums.data());
  std::vector<std::size_t> lengths;
  for (const HostTensor& tensor : call.tensors) lengths.push_back(tensor.type->count());
  adasum(call.group, sums, lengths, type, call.scratch);
  const std::byte* at = sums.data();
  for (const HostTensor& tensor : call.tensors) {
    const std::size_t count = tensor.type->count();
    if (!tensor.is_absent) narrow(at, call.dtype, tensor.local.output, count, scaling.after);
    at += count * size_of(type);
  }
}

}  // namespace

void check_allreduce(const Submission& submission, const std::vector<int>&) {
  const Signature& signature = submission.request.signature;
  check_reduction(signature);
  if (signature.reduce != ReduceOp::kAdasum) return;
  for (const TensorType& tensor : signature.tensors) {
    if (info(tensor.dtype).is_floating) continue;
    raise(ErrorKind::kInvalidArgument, "op Adasum is defined for floating-point numbers, not for {}",
          name(tensor.dtype));
  }
}

namespace {

// Below this an exchange of addresses costs more than copying; the addresses of more tensors are many bytes.
constexpr std::size_t kLeastDirectBytes = 32 * 1024;
constexpr std::size_t kMostDirectTensors = 64;

/// Only agreed data decides whether it is tried, and all ranks learn alike whether it can be done.
bool allreduce_directly(const HostCall& call) {
  if (!call.all_contribute() || call.tensors.size() > kMostDirectTensors ||
      count_of(call) * size_of(call.dtype) < kLeastDirectBytes)
    return false;
  std::vector<DirectTensor> tensors;
  for (const HostTensor& tensor : call.tensors)
    tensors.push_back({tensor.local.input, tensor.local.output, tensor.type->count()});
  return direct_allreduce(*call.group.slots(), tensors, reduction_of(call.batch, call.dtype));
}

void allreduce_in_slots(const HostCall& call) {
  if (allreduce_directly(call)) return;
  Pieces pieces(size_of(call.dtype));
  for (const HostTensor& tensor : call.tensors)
    pieces.add(tensor.local.input, tensor.local.output, tensor.type->count());
  shared_allreduce(*call.group.slots(), pieces, reduction_of(call.batch, call.dtype), call.all_contribute(),
                   call.batch.route);
}

}  // namespace

/// Each rank finishes the chunk that it has reduced, so that scaling and rounding cost 1/size of the data and
/// halves travel as halves in the second half of the ring.
void allreduce_on_host(const HostCall& call) {
  const ReduceOp reduce = call.batch.signature().reduce;
  if (reduce == ReduceOp::kAdasum) return adasum_on_host(call);
  if (call.group.slots() != nullptr) return allreduce_in_slots(call);
  const DType dtype = call.dtype;
  const DType type = accumulation_type(dtype);
  const Scaling scaling = scaling_of(call.batch, dtype);

  const std::size_t count = count_of(call);
  // A single tensor is put together where the result belongs.
  const HostTensor& first = call.tensors.front();
  std::byte* const output = call.tensors.size() == 1 && !first.is_absent ? first.local.output : nullptr;
  const std::size_t bytes = count * size_of(type);
  std::byte* const sums = output != nullptr && type == dtype ? output : call.staging.at_least(bytes).data();
  load(call, scaling, sums);
  const int own = call.group.rank();
  ring_reduce_scatter(call.group, {sums, bytes}, chunk_bounds(call.group, count, size_of(type)), type, reduce,
                      call.scratch);

  std::byte* results = output;
  if (results == nullptr)
    results = type == dtype ? sums : call.scratch.at_least(count * size_of(dtype)).data();
  const Chunks chunks(count, call.group.size());
  std::byte* const own_sums = sums + chunks.first(own) * size_of(type);
  if (scaling.divisor != 1) divide(own_sums, type, chunks.length(own), scaling.divisor);
  narrow(own_sums, dtype, results + chunks.first(own) * size_of(dtype), chunks.length(own), scaling.after);
  ring_allgather(call.group, {results, count * size_of(dtype)},
                 chunk_bounds(call.group, count, size_of(dtype)));
  store(call, results);
}

}  // namespace hora
