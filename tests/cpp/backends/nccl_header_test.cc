// Compares backends/nccl/nccl_api.h with NCCL's header; all of it is done by the compiler.

#include <nccl.h>

#include <cstddef>

#include "backends/nccl/nccl_api.h"
#include "backends/same_kind.h"

namespace hora::nccl {
namespace {

using testing::is_declared_like;
using testing::same_kind;
using testing::same_value;

static_assert(is_declared_like<decltype(Nccl::version), decltype(ncclGetVersion)>);
static_assert(is_declared_like<decltype(Nccl::unique_id), decltype(ncclGetUniqueId)>);
static_assert(is_declared_like<decltype(Nccl::comm_init), decltype(ncclCommInitRankConfig)>);
static_assert(is_declared_like<decltype(Nccl::comm_finalize), decltype(ncclCommFinalize)>);
static_assert(is_declared_like<decltype(Nccl::comm_destroy), decltype(ncclCommDestroy)>);
static_assert(is_declared_like<decltype(Nccl::comm_abort), decltype(ncclCommAbort)>);
static_assert(is_declared_like<decltype(Nccl::comm_async_error), decltype(ncclCommGetAsyncError)>);
static_assert(is_declared_like<decltype(Nccl::error_string), decltype(ncclGetErrorString)>);
static_assert(is_declared_like<decltype(Nccl::last_error), decltype(ncclGetLastError)>);
static_assert(is_declared_like<decltype(Nccl::all_reduce), decltype(ncclAllReduce)>);
static_assert(is_declared_like<decltype(Nccl::broadcast), decltype(ncclBroadcast)>);
static_assert(is_declared_like<decltype(Nccl::reduce_scatter), decltype(ncclReduceScatter)>);
static_assert(is_declared_like<decltype(Nccl::all_gather), decltype(ncclAllGather)>);
static_assert(is_declared_like<decltype(Nccl::send), decltype(ncclSend)>);
static_assert(is_declared_like<decltype(Nccl::receive), decltype(ncclRecv)>);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
static_assert(is_declared_like<decltype(Nccl::all_to_all), decltype(ncclAlltoAll)>);
#endif
static_assert(is_declared_like<decltype(Nccl::group_start), decltype(ncclGroupStart)>);
static_assert(is_declared_like<decltype(Nccl::group_end), decltype(ncclGroupEnd)>);
static_assert(is_declared_like<decltype(Nccl::memory_allocate), decltype(ncclMemAlloc)>);
static_assert(is_declared_like<decltype(Nccl::memory_free), decltype(ncclMemFree)>);

static_assert(same_value(Result::kSuccess, ncclSuccess));
static_assert(same_value(Result::kUnhandledCudaError, ncclUnhandledCudaError));
static_assert(same_value(Result::kSystemError, ncclSystemError));
static_assert(same_value(Result::kInternalError, ncclInternalError));
static_assert(same_value(Result::kInvalidArgument, ncclInvalidArgument));
static_assert(same_value(Result::kInvalidUsage, ncclInvalidUsage));
static_assert(same_value(Result::kRemoteError, ncclRemoteError));
static_assert(same_value(Result::kInProgress, ncclInProgress));

static_assert(same_value(DataType::kInt8, ncclInt8));
static_assert(same_value(DataType::kUInt8, ncclUint8));
static_assert(same_value(DataType::kInt32, ncclInt32));
static_assert(same_value(DataType::kUInt32, ncclUint32));
static_assert(same_value(DataType::kInt64, ncclInt64));
static_assert(same_value(DataType::kUInt64, ncclUint64));
static_assert(same_value(DataType::kFloat16, ncclFloat16));
static_assert(same_value(DataType::kFloat32, ncclFloat32));
static_assert(same_value(DataType::kFloat64, ncclFloat64));
static_assert(same_value(DataType::kBFloat16, ncclBfloat16));

static_assert(same_value(RedOp::kSum, ncclSum));
static_assert(same_value(RedOp::kProd, ncclProd));
static_assert(same_value(RedOp::kMax, ncclMax));
static_assert(same_value(RedOp::kMin, ncclMin));
static_assert(same_value(RedOp::kAvg, ncclAvg));

// NCCL compares sizes and copies the part that both know, so a newer header may have more at the end.
static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size) &&
              same_kind<decltype(Config::size), decltype(ncclConfig_t::size)>());
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic) &&
              same_kind<decltype(Config::magic), decltype(ncclConfig_t::magic)>());
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version) &&
              same_kind<decltype(Config::version), decltype(ncclConfig_t::version)>());
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking) &&
              same_kind<decltype(Config::blocking), decltype(ncclConfig_t::blocking)>());
static_assert(offsetof(Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize) &&
              same_kind<decltype(Config::cga_cluster_size), decltype(ncclConfig_t::cgaClusterSize)>());
static_assert(offsetof(Config, min_ctas) == offsetof(ncclConfig_t, minCTAs) &&
              same_kind<decltype(Config::min_ctas), decltype(ncclConfig_t::minCTAs)>());
static_assert(offsetof(Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs) &&
              same_kind<decltype(Config::max_ctas), decltype(ncclConfig_t::maxCTAs)>());
static_assert(offsetof(Config, net_name) == offsetof(ncclConfig_t, netName) &&
              same_kind<decltype(Config::net_name), decltype(ncclConfig_t::netName)>());
static_assert(offsetof(Config, split_share) == offsetof(ncclConfig_t, splitShare) &&
              same_kind<decltype(Config::split_share), decltype(ncclConfig_t::splitShare)>());
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(kUndefined == NCCL_CONFIG_UNDEF_INT);
static_assert(Config{}.net_name == NCCL_CONFIG_UNDEF_PTR);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && alignof(UniqueId) == alignof(ncclUniqueId));

// A part of NCCL's initializer, which an own configuration must have too.
constexpr ncclConfig_t kInitializer = NCCL_CONFIG_INITIALIZER;
static_assert(kInitializer.magic == kConfigMagic);

}  // namespace
}  // namespace hora::nccl
