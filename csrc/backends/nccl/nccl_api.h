#pragma once

// The part of NCCL's interface that hora uses, in our own words; a test compares it with NCCL's header where
// that is present. NCCL 2.19.3 and later.

#include <climits>
#include <cstddef>

#include "backends/cuda/driver_api.h"

namespace hora::nccl {

/// ncclResult_t.
enum class Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum class DataType : int {
  kInt8 = 0,
  kUInt8 = 1,
  kInt32 = 2,
  kUInt32 = 3,
  kInt64 = 4,
  kUInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBFloat16 = 9,
};

enum class RedOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };

using Comm = struct CommTag*;

struct UniqueId {
  char internal[128];
};

inline constexpr int kUndefined = INT_MIN;
inline constexpr unsigned kConfigMagic = 0xcafebeef;

/// ncclConfig_t as of 2.19. NCCL copies as many bytes as it and the caller both know, takes the rest as
/// undefined, and converts layouts that are older than itself.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = kConfigMagic;
  unsigned version = 21903;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

/// NCCL's functions; the comments are the names of their symbols.
struct Nccl {
  Result (*version)(int* version);                                                   // ncclGetVersion
  Result (*unique_id)(UniqueId* id);                                                 // ncclGetUniqueId
  Result (*comm_init)(Comm* comm, int size, UniqueId id, int rank, Config* config);  // ncclCommInitRankConfig
  Result (*comm_finalize)(Comm comm);                                                // ncclCommFinalize
  Result (*comm_destroy)(Comm comm);                                                 // ncclCommDestroy
  Result (*comm_abort)(Comm comm);                                                   // ncclCommAbort
  Result (*comm_async_error)(Comm comm, Result* error);                              // ncclCommGetAsyncError
  const char* (*error_string)(Result result);                                        // ncclGetErrorString
  const char* (*last_error)(Comm comm);                                              // ncclGetLastError
  Result (*all_reduce)(const void* from, void* to, std::size_t count, DataType type, RedOp op, Comm comm,
                       cuda::Stream stream);  // ncclAllReduce
  Result (*broadcast)(const void* from, void* to, std::size_t count, DataType type, int root, Comm comm,
                      cuda::Stream stream);  // ncclBroadcast
  Result (*reduce_scatter)(const void* from, void* to, std::size_t count_received, DataType type, RedOp op,
                           Comm comm,
                           cuda::Stream stream);  // ncclReduceScatter
  Result (*all_gather)(const void* from, void* to, std::size_t count_sent, DataType type, Comm comm,
                       cuda::Stream stream);  // ncclAllGather
  Result (*send)(const void* from, std::size_t count, DataType type, int peer, Comm comm,
                 cuda::Stream stream);  // ncclSend
  Result (*receive)(void* to, std::size_t count, DataType type, int peer, Comm comm,
                    cuda::Stream stream);                        // ncclRecv
  Result (*group_start)();                                       // ncclGroupStart
  Result (*group_end)();                                         // ncclGroupEnd
  Result (*memory_allocate)(void** pointer, std::size_t bytes);  // ncclMemAlloc
  Result (*memory_free)(void* pointer);                          // ncclMemFree

  // Null where NCCL is older.
  Result (*all_to_all)(const void* from, void* to, std::size_t count_each, DataType type, Comm comm,
                       cuda::Stream stream);  // ncclAlltoAll, 2.28
};

}  // namespace hora::nccl
