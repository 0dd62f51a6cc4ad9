#include "stand_ins/nccl/operation.h"

#include <fmt/format.h>

namespace hora::fake_nccl {
namespace {

const char* name(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "allreduce";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kReduceScatter:
      return "reducescatter";
    case Kind::kAllGather:
      return "allgather";
    case Kind::kSend:
      return "send";
    case Kind::kReceive:
      return "receive";
  }
  return "unknown call";
}

const char* name(nccl::DataType type) {
  constexpr const char* kNames[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                    "uint64", "float16", "float32", "float64", "bfloat16"};
  return kNames[static_cast<int>(type)];
}

const char* name(nccl::RedOp op) {
  constexpr const char* kNames[] = {"sum", "product", "max", "min", "average"};
  return kNames[static_cast<int>(op)];
}

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduceScatter;
}

}  // namespace

std::size_t size_of(nccl::DataType type) {
  constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[static_cast<int>(type)];
}

bool is_collective(Kind kind) {
  return kind != Kind::kSend && kind != Kind::kReceive;
}

std::size_t bytes_read(const Operation& operation, int rank, int size) {
  const std::size_t bytes = operation.description.count * size_of(operation.description.type);
  switch (operation.description.kind) {
    case Kind::kReduceScatter:
      return bytes * static_cast<std::size_t>(size);
    case Kind::kBroadcast:
      return operation.peer == rank ? bytes : 0;
    case Kind::kReceive:
      return 0;
    default:
      return bytes;
  }
}

std::size_t bytes_written(const Operation& operation, int size) {
  const std::size_t bytes = operation.description.count * size_of(operation.description.type);
  switch (operation.description.kind) {
    case Kind::kAllGather:
      return bytes * static_cast<std::size_t>(size);
    case Kind::kSend:
      return 0;
    default:
      return bytes;
  }
}

bool agree(const Description& a, const Description& b) {
  const bool same_kind = is_collective(a.kind) ? a.kind == b.kind : a.kind != b.kind;
  return same_kind && a.type == b.type && a.op == b.op && a.root == b.root && a.count == b.count &&
         a.place == b.place && a.places == b.places;
}

std::string text(const Description& description) {
  std::string result =
      fmt::format("{} of {} {}", name(description.kind), description.count, name(description.type));
  if (reduces(description.kind)) result += fmt::format(", {}", name(description.op));
  if (description.kind == Kind::kBroadcast) result += fmt::format(" from root {}", description.root);
  return result + fmt::format(" ({} of {} in its group)", description.place + 1, description.places);
}

}  // namespace hora::fake_nccl
