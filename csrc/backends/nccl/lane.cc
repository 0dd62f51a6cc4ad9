#include "backends/nccl/lane.h"

#include "base/error.h"

namespace hora::nccl {
namespace {

DataType to_nccl(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return DataType::kUInt8;
    case DType::kInt8:
      return DataType::kInt8;
    case DType::kInt32:
      return DataType::kInt32;
    case DType::kInt64:
      return DataType::kInt64;
    case DType::kFloat16:
      return DataType::kFloat16;
    case DType::kBFloat16:
      return DataType::kBFloat16;
    case DType::kFloat32:
      return DataType::kFloat32;
    case DType::kFloat64:
      return DataType::kFloat64;
    case DType::kInt16:
      break;
  }
  raise(ErrorKind::kSessionFailed, "NCCL does not reduce {}", name(dtype));
}

RedOp to_nccl(ReduceOp reduce) {
  switch (reduce) {
    case ReduceOp::kAverage:
      return RedOp::kAvg;
    case ReduceOp::kSum:
      return RedOp::kSum;
    case ReduceOp::kMin:
      return RedOp::kMin;
    case ReduceOp::kMax:
      return RedOp::kMax;
    case ReduceOp::kProduct:
      return RedOp::kProd;
    case ReduceOp::kAdasum:
      break;
  }
  raise(ErrorKind::kSessionFailed, "NCCL has no {}", name(reduce));
}

}  // namespace

std::shared_ptr<std::byte[]> Lane::allocate(std::size_t bytes) {
  std::shared_ptr<std::byte[]> memory = pool_.allocate(bytes, consumer_, reserves_);
  if (memory == nullptr && !reserves_.empty()) {
    reserves_.clear();  // they do not suit, and are in the way
    memory = pool_.allocate(bytes, consumer_, {});
  }
  return memory;
}

void Lane::move(std::span<const DeviceMove> moves, const Conversion& conversion) {
  pieces_.clear();
  for (const DeviceMove& move : moves)
    pieces_.push_back({move.from, move.to, static_cast<long long>(move.count), 0});
  launch(cuda::plan_launches(pieces_, {conversion.from, conversion.to, conversion.scale, conversion.divisor},
                             set_.kernels->capacity()));
}

void Lane::fill(std::byte* to, std::size_t count, DType dtype, ReduceOp reduce) {
  pieces_.assign(1, {nullptr, to, static_cast<long long>(count), 0});
  launch(cuda::plan_fills(pieces_, dtype, reduce, set_.kernels->capacity()));
}

void Lane::launch(const std::vector<cuda::PackLaunch>& launches) {
  for (const cuda::PackLaunch& each : launches)
    check(device_.driver(), set_.kernels->launch(each, device_.stream()), "cuLaunchKernel");
}

void Lane::begin_group() {
  set_.communicator->expect(nccl_.group_start(), "ncclGroupStart");
  in_group_ = true;
}

void Lane::end_group() {
  in_group_ = false;
  set_.communicator->settle(nccl_.group_end(), "ncclGroupEnd", meanwhile_);
}

void Lane::take(Result result, const char* what) const {
  if (in_group_) {
    set_.communicator->expect(result, what);
  } else {
    set_.communicator->settle(result, what, meanwhile_);
  }
}

void Lane::all_reduce(const std::byte* from, std::byte* to, std::size_t count, DType dtype, ReduceOp reduce) {
  if (count == 0) return;
  take(nccl_.all_reduce(from, to, count, to_nccl(dtype), to_nccl(reduce), set_.communicator->get(),
                        device_.stream()),
       "ncclAllReduce");
}

void Lane::reduce_scatter(const std::byte* from, std::byte* to, std::size_t count, DType dtype,
                          ReduceOp reduce) {
  if (count == 0) return;
  take(nccl_.reduce_scatter(from, to, count, to_nccl(dtype), to_nccl(reduce), set_.communicator->get(),
                            device_.stream()),
       "ncclReduceScatter");
}

void Lane::broadcast(const std::byte* from, std::byte* to, std::size_t bytes, int root) {
  if (bytes == 0) return;
  take(nccl_.broadcast(from, to, bytes, DataType::kUInt8, root, set_.communicator->get(), device_.stream()),
       "ncclBroadcast");
}

void Lane::all_gather(const std::byte* from, std::byte* to, std::size_t bytes) {
  if (bytes == 0) return;
  take(nccl_.all_gather(from, to, bytes, DataType::kUInt8, set_.communicator->get(), device_.stream()),
       "ncclAllGather");
}

/// Within a group, which a number of single messages needs.
void Lane::all_to_all(const std::byte* from, std::byte* to, std::size_t bytes) {
  if (bytes == 0) return;
  if (nccl_.all_to_all != nullptr) {
    take(nccl_.all_to_all(from, to, bytes, DataType::kUInt8, set_.communicator->get(), device_.stream()),
         "ncclAlltoAll");
    return;
  }
  for (int peer = 0; peer < set_.size; ++peer) {
    const std::size_t at = static_cast<std::size_t>(peer) * bytes;
    send(from + at, bytes, peer);
    receive(to + at, bytes, peer);
  }
}

void Lane::send(const std::byte* from, std::size_t bytes, int peer) {
  take(nccl_.send(from, bytes, DataType::kUInt8, peer, set_.communicator->get(), device_.stream()),
       "ncclSend");
}

void Lane::receive(std::byte* to, std::size_t bytes, int peer) {
  take(nccl_.receive(to, bytes, DataType::kUInt8, peer, set_.communicator->get(), device_.stream()),
       "ncclRecv");
}

}  // namespace hora::nccl
