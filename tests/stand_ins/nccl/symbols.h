#pragma once

// NCCL's symbols that the stand-in exports, and the table that libhora makes of them. The compiler compares
// the two.

#include <cstddef>

#include "backends/nccl/nccl_api.h"

namespace hora::fake_nccl {

extern "C" {
nccl::Result ncclGetVersion(int* version);
nccl::Result ncclGetUniqueId(nccl::UniqueId* id);
nccl::Result ncclCommInitRankConfig(nccl::Comm* comm, int size, nccl::UniqueId id, int rank,
                                    nccl::Config* config);
nccl::Result ncclCommFinalize(nccl::Comm comm);
nccl::Result ncclCommDestroy(nccl::Comm comm);
nccl::Result ncclCommAbort(nccl::Comm comm);
nccl::Result ncclCommGetAsyncError(nccl::Comm comm, nccl::Result* error);
const char* ncclGetErrorString(nccl::Result result);
const char* ncclGetLastError(nccl::Comm comm);
nccl::Result ncclAllReduce(const void* from, void* to, std::size_t count, nccl::DataType type, nccl::RedOp op,
                           nccl::Comm comm, cuda::Stream stream);
nccl::Result ncclBroadcast(const void* from, void* to, std::size_t count, nccl::DataType type, int root,
                           nccl::Comm comm, cuda::Stream stream);
nccl::Result ncclReduceScatter(const void* from, void* to, std::size_t count_received, nccl::DataType type,
                               nccl::RedOp op, nccl::Comm comm, cuda::Stream stream);
nccl::Result ncclAllGather(const void* from, void* to, std::size_t count_sent, nccl::DataType type,
                           nccl::Comm comm, cuda::Stream stream);
nccl::Result ncclSend(const void* from, std::size_t count, nccl::DataType type, int peer, nccl::Comm comm,
                      cuda::Stream stream);
nccl::Result ncclRecv(void* to, std::size_t count, nccl::DataType type, int peer, nccl::Comm comm,
                      cuda::Stream stream);
nccl::Result ncclAlltoAll(const void* from, void* to, std::size_t count_each, nccl::DataType type,
                          nccl::Comm comm, cuda::Stream stream);
nccl::Result ncclGroupStart();
nccl::Result ncclGroupEnd();
nccl::Result ncclMemAlloc(void** pointer, std::size_t bytes);
nccl::Result ncclMemFree(void* pointer);
}

inline constexpr nccl::Nccl kSymbols = {
    ncclGetVersion, ncclGetUniqueId,       ncclCommInitRankConfig, ncclCommFinalize, ncclCommDestroy,
    ncclCommAbort,  ncclCommGetAsyncError, ncclGetErrorString,     ncclGetLastError, ncclAllReduce,
    ncclBroadcast,  ncclReduceScatter,     ncclAllGather,          ncclSend,         ncclRecv,
    ncclGroupStart, ncclGroupEnd,          ncclMemAlloc,           ncclMemFree,      ncclAlltoAll};

}  // namespace hora::fake_nccl
