#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/nccl/nccl_api.h"
#include "stand_ins/fake_nccl.h"

namespace hora::fake_nccl {

/// What ranks show each other of a call, in shared memory. All zeros at first.
struct Description {
  Kind kind;
  nccl::DataType type;
  nccl::RedOp op;
  std::int32_t root;
  std::uint64_t count;
  /// Its place among the calls of its group that have the same counterpart: all ranks for a collective, one
  /// peer and direction for a send or receive.
  std::uint32_t place;
  std::uint32_t places;
};

/// One call of a collective, a send or a receive.
struct Operation {
  Description description;
  int peer;  ///< root, or the peer of a send or receive; else -1
  const std::byte* from;
  std::byte* to;
  cuda::Stream stream;
  // Injected faults.
  bool hangs;
  bool fails;
};

std::size_t size_of(nccl::DataType type);
bool is_collective(Kind kind);

/// Bytes that the operation reads from `from` and writes to `to` on this rank.
std::size_t bytes_read(const Operation& operation, int rank, int size);
std::size_t bytes_written(const Operation& operation, int size);

/// Whether two ranks' calls fit: equal collectives, or a send and its receive.
bool agree(const Description& a, const Description& b);

/// "allreduce of 5 float32, sum (1 of 2 in its group)".
std::string text(const Description& description);

}  // namespace hora::fake_nccl
