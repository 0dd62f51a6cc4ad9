#include "backends/nccl/nccl_library.h"

#include <fmt/format.h>

#include "backends/library_search.h"
#include "base/text.h"

namespace hora::nccl {
namespace {

// 2.18 aborts badly when several threads take part, and has no ncclMemAlloc.
constexpr int kLeastVersion = 21903;

void bind_all(SymbolBinder& binder, Nccl& nccl) {
  binder.bind(nccl.version, "ncclGetVersion");
  binder.bind(nccl.unique_id, "ncclGetUniqueId");
  binder.bind(nccl.comm_init, "ncclCommInitRankConfig");
  binder.bind(nccl.comm_finalize, "ncclCommFinalize");
  binder.bind(nccl.comm_destroy, "ncclCommDestroy");
  binder.bind(nccl.comm_abort, "ncclCommAbort");
  binder.bind(nccl.comm_async_error, "ncclCommGetAsyncError");
  binder.bind(nccl.error_string, "ncclGetErrorString");
  binder.bind(nccl.last_error, "ncclGetLastError");
  binder.bind(nccl.all_reduce, "ncclAllReduce");
  binder.bind(nccl.broadcast, "ncclBroadcast");
  binder.bind(nccl.reduce_scatter, "ncclReduceScatter");
  binder.bind(nccl.all_gather, "ncclAllGather");
  binder.bind(nccl.send, "ncclSend");
  binder.bind(nccl.receive, "ncclRecv");
  binder.bind(nccl.group_start, "ncclGroupStart");
  binder.bind(nccl.group_end, "ncclGroupEnd");
  binder.bind(nccl.memory_allocate, "ncclMemAlloc");
  binder.bind(nccl.memory_free, "ncclMemFree");
}

/// All ranks have the same version, hence the same of these.
std::vector<std::string> bind_optional(SymbolBinder& binder, Nccl& nccl) {
  std::vector<std::string> found;
  if (binder.bind_optional(nccl.all_to_all, "ncclAlltoAll")) found.emplace_back("ncclAlltoAll");
  return found;
}

}  // namespace

std::string describe_version(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclLibrary open_nccl(const std::string& path, const std::vector<std::string>& folders) {
  const FoundLibrary found = find_library({.path = path,
                                           .setting = "HORA_NCCL_LIBRARY",
                                           .symbol = "ncclCommInitRankConfig",
                                           .names = {"libnccl.so.2"},
                                           .folders = folders});
  if (found.place.empty()) {
    return {nullptr,
            0,
            {},
            {},
            fmt::format("NCCL was not found ({}); install the package nvidia-nccl-cu12 or nvidia-nccl-cu13",
                        join(found.tried, "; "))};
  }
  auto nccl = std::make_shared<Nccl>();
  SymbolBinder binder(found);
  bind_all(binder, *nccl);
  int version = 0;
  if (nccl->version != nullptr) static_cast<void>(nccl->version(&version));
  if (version < kLeastVersion || !binder.missing().empty()) {
    return {nullptr,
            0,
            {},
            {},
            fmt::format("NCCL {} is too old ({}); hora needs {} or later", describe_version(version),
                        found.place, describe_version(kLeastVersion))};
  }
  std::vector<std::string> features = bind_optional(binder, *nccl);
  return {std::move(nccl), version, found.place, std::move(features), {}};
}

}  // namespace hora::nccl
