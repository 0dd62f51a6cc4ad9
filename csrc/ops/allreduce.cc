#include <algorithm>
#include <vector>

#include "base/error.h"
#include "collectives/adasum.h"
#include "collectives/chunks.h"
#include "collectives/convert.h"
#include "collectives/hierarchical/hierarchical.h"
#include "collectives/recursive_doubling.h"
#include "collectives/ring_allreduce.h"
#include "collectives/shared_memory/shared_memory.h"
#include "ops/device_reduction.h"
#include "ops/ops.h"
#include "ops/scaling.h"

namespace hora {
namespace {

/// Packs the tensors one after another in accumulation type.
void load(const HostCall& call, const Scaling& scaling, std::byte* at) {
  const std::size_t element = size_of(accumulation_type(call.dtype));
  for (const OpTensor& tensor : call.tensors) {
    const std::size_t count = tensor.type->count();
    load_operand(tensor, call.batch.signature().reduce, scaling, 0, count, at);
    at += count * element;
  }
}

/// Unpacks them from their own type.
void store(const HostCall& call, const std::byte* at) {
  for (const OpTensor& tensor : call.tensors) {
    const std::size_t bytes = tensor.type->bytes();
    if (!tensor.is_absent && at != tensor.local.output) std::copy_n(at, bytes, tensor.local.output);
    at += bytes;
  }
}

std::size_t count_of(const HostCall& call) {
  std::size_t count = 0;
  for (const OpTensor& tensor : call.tensors) count += tensor.type->count();
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
  for (const OpTensor& tensor : call.tensors) lengths.push_back(tensor.type->count());
  adasum(call.group, sums, lengths, type, call.scratch);
  const std::byte* at = sums.data();
  for (const OpTensor& tensor : call.tensors) {
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
  if (signature.device != DeviceKind::kHost)
    raise(ErrorKind::kInvalidArgument, "op Adasum is not available on GPUs; move the tensor with .cpu()");
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
  for (const OpTensor& tensor : call.tensors)
    tensors.push_back({tensor.local.input, tensor.local.output, tensor.type->count()});
  return direct_allreduce(*call.group.slots(), tensors, reduction_of(call.batch, call.dtype));
}

void allreduce_in_slots(const HostCall& call) {
  if (allreduce_directly(call)) return;
  shared_allreduce(*call.group.slots(), call.pieces(), reduction_of(call.batch, call.dtype),
                   call.all_contribute(), call.batch.route);
}

void run_ring(const HostCall& call, const RingAllreduce::Memory& memory, const Reduction& reduction,
              std::size_t count) {
  const auto finish = [&](RingAllreduce::Segment segment) {
    finish_sums(memory.sums + segment.first * size_of(memory.type),
                memory.results + segment.first * memory.result_bytes, segment.count, reduction);
  };
  RingAllreduce ring(call.group, ring_segments(count, call.group.size(), size_of(memory.type)), memory,
                     reduction.op, call.scratch, finish);
  ring.make_available(ring.segments());
  for (ring.advance(); !ring.is_over(); ring.advance()) call.group.pump();
}

/// Between ranks that share no memory. A single tensor is put together where the result belongs. In the ring
/// each rank finishes the chunk that it has reduced, so that scaling and rounding cost 1/size of the data and
/// halves travel as halves once they are results.
void allreduce_flat(const HostCall& call) {
  const DType type = accumulation_type(call.dtype);
  const Reduction reduction = reduction_of(call.batch, call.dtype);
  const std::size_t count = count_of(call);
  const OpTensor& first = call.tensors.front();
  std::byte* const output = call.tensors.size() == 1 && !first.is_absent ? first.local.output : nullptr;
  const bool is_half = type != call.dtype;
  const bool sums_in_output = output != nullptr && !is_half;
  const std::size_t sum_bytes = sums_in_output ? 0 : count * size_of(type);
  const std::size_t result_bytes = output == nullptr && is_half ? count * size_of(call.dtype) : 0;
  std::byte* const staging = call.staging.at_least(sum_bytes + result_bytes).data();
  std::byte* const sums = sums_in_output ? output : staging;
  std::byte* const results = output != nullptr ? output : is_half ? staging + sum_bytes : sums;
  load(call, scaling_of(call.batch, call.dtype), sums);
  if (call.batch.route.across == Route::Across::kDoubling) {
    recursive_doubling_allreduce(call.group, {sums, count * size_of(type)}, type, reduction.op, call.scratch);
    finish_sums(sums, results, count, reduction);
  } else {
    run_ring(call, {sums, type, results, size_of(call.dtype)}, reduction, count);
  }
  store(call, results);
}

}  // namespace

void allreduce_on_host(const HostCall& call) {
  if (call.batch.signature().reduce == ReduceOp::kAdasum) return adasum_on_host(call);
  if (call.group.slots() != nullptr) return allreduce_in_slots(call);
  if (call.group.hosts() == nullptr) return allreduce_flat(call);
  hierarchical_allreduce(call.group, call.pieces(), reduction_of(call.batch, call.dtype), call.batch.route,
                         call.staging, call.scratch);
}

namespace {

/// Runs of elements of the tensors, taken one after another, until `most` elements are together.
class DeviceCursor {
 public:
  explicit DeviceCursor(const DeviceCall& call) : call_(call) {}

  struct Run {
    const OpTensor* tensor;
    std::size_t first;
    std::size_t count;
  };

  std::vector<Run> next(std::size_t most) {
    std::vector<Run> runs;
    while (tensor_ < call_.tensors.size() && most > 0) {
      const OpTensor& tensor = call_.tensors[tensor_];
      const std::size_t count = std::min(most, tensor.type->count() - first_);
      if (count > 0) runs.push_back({&tensor, first_, count});
      most -= count;
      first_ += count;
      if (first_ == tensor.type->count()) {
        ++tensor_;
        first_ = 0;
      }
    }
    return runs;
  }

 private:
  const DeviceCall& call_;
  std::size_t tensor_ = 0;
  std::size_t first_ = 0;
};

/// One launch packs, one NCCL call reduces, one launch unpacks, for as much as the staging memory holds.
void allreduce_packed(const DeviceCall& call, const DeviceReduction& reduction) {
  DeviceLane& lane = call.lane;
  const std::size_t size = size_of(call.dtype);
  const std::size_t wire_size = size_of(reduction.wire);
  std::byte* const staging = lane.staging().data();
  DeviceCursor cursor(call);
  std::vector<DeviceMove> loads;
  std::vector<DeviceMove> stores;
  for (;;) {
    const auto runs = cursor.next(lane.staging().size() / wire_size);
    if (runs.empty()) return;
    loads.clear();
    stores.clear();
    std::byte* at = staging;
    for (const auto& [tensor, first, count] : runs) {
      if (tensor->is_absent) {
        lane.fill(at, count, reduction.wire, reduction.reduce);
      } else {
        loads.push_back({tensor->local.input + first * size, at, count});
        stores.push_back({at, tensor->local.output + first * size, count});
      }
      at += count * wire_size;
    }
    lane.move(loads, reduction.load);
    lane.all_reduce(staging, staging, static_cast<std::size_t>(at - staging) / wire_size, reduction.wire,
                    reduction.reduce);
    lane.move(stores, reduction.store);
  }
}

}  // namespace

/// Tensors that need no packing go as they are: a single one, and all of them where there are no kernels.
void allreduce_on_device(const DeviceCall& call) {
  const DeviceReduction reduction =
      device_reduction_of(call.batch, call.dtype, call.group.size(), call.lane.has_kernels());
  require_kernels(call, reduction);
  const bool packs = !reduction.is_plain() || !call.all_contribute() || call.tensors.size() > 1;
  if (packs && call.lane.has_kernels()) return allreduce_packed(call, reduction);
  call.lane.begin_group();
  for (const OpTensor& tensor : call.tensors) {
    call.lane.all_reduce(tensor.local.input, tensor.local.output, tensor.type->count(), reduction.wire,
                         reduction.reduce);
  }
  call.lane.end_group();
}

}  // namespace hora
