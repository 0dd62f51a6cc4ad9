// NCCL's functions that move data, and groups of them.

#include <fmt/format.h>

#include <utility>

#include "stand_ins/nccl/group.h"
#include "stand_ins/nccl/report.h"
#include "stand_ins/nccl/rules.h"
#include "stand_ins/nccl/symbols.h"

namespace hora::fake_nccl {
namespace {

using cuda::Stream;
using nccl::Comm;
using nccl::DataType;
using nccl::RedOp;
using nccl::Result;

/// As with NCCL each thread has its own.
thread_local int depth = 0;
thread_local Group group;

Result run_group() {
  return std::exchange(group, {}).run();
}

Result add_call(Operation operation, Comm comm, const char* caller) {
  const auto communicator = find(comm, caller);
  if (communicator == nullptr) return failed(Result::kInvalidArgument, fmt::format("{}: null", caller));
  if (!is_valid(operation, *communicator))
    return failed(Result::kInvalidArgument, fmt::format("{}: a bad type, reduction, root or peer", caller));
  if (communicator->is_finalizing())
    return failed(Result::kInvalidArgument, fmt::format("{}: the communicator was finalized", caller));
  const Result ready = check_ready(*communicator, caller);
  if (ready != Result::kSuccess) return ready;
  check_rules(operation, *communicator);
  const std::uint64_t number = communicator->next_operation();
  operation.hangs = hang_strikes(communicator->rank(), number);
  operation.fails = error_strikes(communicator->rank(), number);
  group.add(communicator, operation);
  return Result::kSuccess;
}

Result call(const Operation& operation, Comm comm, const char* caller) {
  const Result result = add_call(operation, comm, caller);
  if (depth == 0) return result == Result::kSuccess ? run_group() : result;
  if (result != Result::kSuccess) group.set_error(result);
  return result;
}

/// `root` for a broadcast, `peer` for a send or receive, -1 for what has neither.
Operation operation_of(Kind kind, const void* from, void* to, std::size_t count, DataType type, RedOp op,
                       int peer, Stream stream) {
  const int root = kind == Kind::kBroadcast ? peer : -1;
  return {{kind, type, op, root, count, 0, 1},
          peer,
          static_cast<const std::byte*>(from),
          static_cast<std::byte*>(to),
          stream,
          0,
          false};
}

}  // namespace

extern "C" {

Result ncclAllReduce(const void* from, void* to, std::size_t count, DataType type, RedOp op, Comm comm,
                     Stream stream) {
  return call(operation_of(Kind::kAllReduce, from, to, count, type, op, -1, stream), comm, "ncclAllReduce");
}

Result ncclBroadcast(const void* from, void* to, std::size_t count, DataType type, int root, Comm comm,
                     Stream stream) {
  return call(operation_of(Kind::kBroadcast, from, to, count, type, RedOp::kSum, root, stream), comm,
              "ncclBroadcast");
}

Result ncclReduceScatter(const void* from, void* to, std::size_t count_received, DataType type, RedOp op,
                         Comm comm, Stream stream) {
  return call(operation_of(Kind::kReduceScatter, from, to, count_received, type, op, -1, stream), comm,
              "ncclReduceScatter");
}

Result ncclAllGather(const void* from, void* to, std::size_t count_sent, DataType type, Comm comm,
                     Stream stream) {
  return call(operation_of(Kind::kAllGather, from, to, count_sent, type, RedOp::kSum, -1, stream), comm,
              "ncclAllGather");
}

Result ncclSend(const void* from, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return call(operation_of(Kind::kSend, from, nullptr, count, type, RedOp::kSum, peer, stream), comm,
              "ncclSend");
}

Result ncclRecv(void* to, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return call(operation_of(Kind::kReceive, nullptr, to, count, type, RedOp::kSum, peer, stream), comm,
              "ncclRecv");
}

/// Like NCCL's: messages between all pairs.
Result ncclAlltoAll(const void* from, void* to, std::size_t count_each, DataType type, Comm comm,
                    Stream stream) {
  const auto communicator = find(comm, "ncclAlltoAll");
  if (communicator == nullptr) return failed(Result::kInvalidArgument, "ncclAlltoAll: null");
  const std::size_t bytes = count_each * size_of(type);
  ncclGroupStart();
  for (int peer = 0; peer < communicator->size(); ++peer) {
    const std::size_t at = static_cast<std::size_t>(peer) * bytes;
    ncclSend(static_cast<const std::byte*>(from) + at, count_each, type, peer, comm, stream);
    ncclRecv(static_cast<std::byte*>(to) + at, count_each, type, peer, comm, stream);
  }
  return ncclGroupEnd();
}

Result ncclGroupStart() {
  ++depth;
  return Result::kSuccess;
}

Result ncclGroupEnd() {
  if (depth == 0) return failed(Result::kInvalidUsage, "ncclGroupEnd: not in a group call");
  return --depth == 0 ? run_group() : Result::kSuccess;
}
}

}  // namespace hora::fake_nccl
