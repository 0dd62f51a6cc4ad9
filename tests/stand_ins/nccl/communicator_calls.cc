// NCCL's functions that make and end communicators.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

#include "stand_ins/cuda/symbols.h"
#include "stand_ins/fake_cuda.h"
#include "stand_ins/nccl/communicator.h"
#include "stand_ins/nccl/launch.h"
#include "stand_ins/nccl/report.h"
#include "stand_ins/nccl/symbols.h"

namespace hora::fake_nccl {
namespace {

using nccl::Config;
using nccl::Result;

/// Handles are numbers that never come again, so that one that has ended is known.
struct Handles {
  std::mutex mutex;  // guards the rest
  std::uintptr_t last = 0;
  std::map<std::uintptr_t, std::shared_ptr<Communicator>> living;
};

Handles& handles() {
  static auto* const only = new Handles;  // for ever: threads may still call while the process ends
  return *only;
}

nccl::Comm add(std::shared_ptr<Communicator> communicator) {
  const std::lock_guard lock(handles().mutex);
  handles().living.emplace(++handles().last, std::move(communicator));
  return reinterpret_cast<nccl::Comm>(handles().last);
}

/// The caller is the one who ends it; for all others it has ended.
std::shared_ptr<Communicator> take(nccl::Comm handle, const char* caller) {
  std::shared_ptr<Communicator> found = find(handle, caller);
  const std::lock_guard lock(handles().mutex);
  handles().living.erase(reinterpret_cast<std::uintptr_t>(handle));
  return found;
}

std::uint64_t host_hash() {
  if (const char* const given = std::getenv("NCCL_HOSTID")) return std::hash<std::string_view>{}(given);
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  return std::hash<std::string>{}(name + boot_id);
}

/// NCCL takes as many bytes as it and the caller both know.
Config known_part(const Config* given) {
  Config config;
  if (given == nullptr) return config;
  std::size_t bytes = 0;
  std::memcpy(&bytes, &given->size, sizeof(bytes));
  std::memcpy(static_cast<void*>(&config), given, std::min(bytes, sizeof(Config)));
  return config;
}

bool is_valid(const Config& config) {
  const auto is_one_of = [](int value, int low, int high) {
    return value == nccl::kUndefined || (value >= low && value <= high);
  };
  const bool ctas = (config.min_ctas == nccl::kUndefined) == (config.max_ctas == nccl::kUndefined) &&
                    config.min_ctas <= config.max_ctas && is_one_of(config.min_ctas, 1, INT_MAX);
  return config.magic == nccl::kConfigMagic && is_one_of(config.blocking, 0, 1) &&
         is_one_of(config.cga_cluster_size, 0, 8) && is_one_of(config.split_share, 0, 1) && ctas;
}

bool is_blocking(const Config& config) {
  const char* const overriding = std::getenv("NCCL_COMM_BLOCKING");
  if (overriding != nullptr && std::strcmp(overriding, "0") == 0) return false;
  if (overriding != nullptr && std::strcmp(overriding, "1") == 0) return true;
  return config.blocking != 0;
}

Result no_memory(const char* caller) {
  return failed(Result::kUnhandledCudaError, fmt::format("{}: Cuda failure 'out of memory'", caller));
}

void close_communicator(Communicator& communicator, Presence how) {
  communicator.leave(how);
  communicator.join_launcher();
  communicator.release_context();
}

/// Until all ranks have called, as long as the options allow.
Result finish_blocking_init(nccl::Comm* handle, const std::shared_ptr<Communicator>& communicator) {
  Result result = communicator->wait_until_ready(std::chrono::milliseconds(options().init_timeout_ms));
  if (result == Result::kSuccess) {
    count(&Counts::communicators_made);
    *handle = add(communicator);
    return result;
  }
  close_communicator(*communicator, Presence::kAborted);
  if (result != Result::kInProgress) return result;
  return failed(Result::kSystemError,
                fmt::format("ncclCommInitRankConfig: {} waited in vain for its peers", communicator->text()));
}

Result init(nccl::Comm* handle, int size, const nccl::UniqueId& id, int rank, const Config& config) {
  const int device = fake_cuda::fake_cuda_current_device();
  if (device < 0) return failed(Result::kUnhandledCudaError, "ncclCommInitRankConfig: no context is current");
  const bool fails = init_fails();
  if (fails && is_blocking(config)) return no_memory("ncclCommInitRankConfig");

  // A rank that fails meets nobody: its peers wait for it.
  auto meeting = Rendezvous::open(fails ? Rendezvous::new_id() : id, size);
  if (meeting == nullptr)
    return failed(Result::kInvalidArgument, "ncclCommInitRankConfig: bad unique id or size");
  const auto communicator = std::make_shared<Communicator>(meeting, rank, device, is_blocking(config));
  char bus_id[32] = {};
  fake_cuda::cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), device);
  if (fails) communicator->set_error(no_memory("ncclCommInitRankConfig"));
  if (!meeting->join(rank, host_hash(), bus_id)) {
    communicator->release_context();
    return failed(
        Result::kInvalidArgument,
        fmt::format("ncclCommInitRankConfig: rank {} exists, or ranks differ in their number", rank));
  }
  if (communicator->blocking()) return finish_blocking_init(handle, communicator);
  count(&Counts::communicators_made);
  *handle = add(communicator);
  return Result::kInProgress;
}

/// Destroying waits for the communicator's work, within limits.
void wait_for_work(Communicator& communicator) {
  const Time deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(options().destroy_timeout_ms);
  while (communicator.has_pending_work()) {
    if (std::chrono::steady_clock::now() > deadline)
      end_process(fmt::format("ncclCommDestroy: {} has work that does not end; abort it instead",
                              communicator.text()));
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

std::shared_ptr<Communicator> find(nccl::Comm handle, const char* caller) {
  if (handle == nullptr) return nullptr;
  const std::lock_guard lock(handles().mutex);
  const auto found = handles().living.find(reinterpret_cast<std::uintptr_t>(handle));
  if (found != handles().living.end()) return found->second;
  if (options().check_rules)
    end_process(fmt::format("{}: the communicator was destroyed or aborted", caller));
  return nullptr;
}

extern "C" {

Result ncclGetUniqueId(nccl::UniqueId* id) {
  if (id == nullptr) return failed(Result::kInvalidArgument, "ncclGetUniqueId: null");
  *id = Rendezvous::new_id();
  return Result::kSuccess;
}

Result ncclCommInitRankConfig(nccl::Comm* comm, int size, nccl::UniqueId id, int rank, Config* config) {
  if (comm == nullptr || size < 1 || rank < 0 || rank >= size)
    return failed(Result::kInvalidArgument, fmt::format("ncclCommInitRankConfig: rank {} of {}", rank, size));
  *comm = nullptr;
  const Config known = known_part(config);
  if (!is_valid(known)) return failed(Result::kInvalidArgument, "ncclCommInitRankConfig: bad configuration");
  return init(comm, size, id, rank, known);
}

Result ncclCommGetAsyncError(nccl::Comm comm, Result* error) {
  const auto communicator = find(comm, "ncclCommGetAsyncError");
  if (communicator == nullptr || error == nullptr)
    return failed(Result::kInvalidArgument, "ncclCommGetAsyncError: null");
  *error = communicator->poll(true);
  return Result::kSuccess;
}

Result ncclCommFinalize(nccl::Comm comm) {
  const auto communicator = find(comm, "ncclCommFinalize");
  if (communicator == nullptr) return failed(Result::kInvalidArgument, "ncclCommFinalize: null");
  if (communicator->is_finalizing())
    return failed(Result::kInvalidArgument, "ncclCommFinalize: called twice");
  const Result ready = check_ready(*communicator, "ncclCommFinalize");
  if (ready != Result::kSuccess) return ready;
  communicator->start_finalizing();
  if (!communicator->blocking()) return Result::kInProgress;
  return communicator->wait_until_ready(std::chrono::milliseconds(options().destroy_timeout_ms));
}

Result ncclCommDestroy(nccl::Comm comm) {
  if (comm == nullptr) return Result::kSuccess;
  const auto communicator = find(comm, "ncclCommDestroy");
  if (communicator == nullptr) return failed(Result::kInvalidArgument, "ncclCommDestroy: not a communicator");
  if (communicator->poll(false) == Result::kInProgress) {
    if (communicator->is_finalizing() && options().check_rules)
      end_process(fmt::format("ncclCommDestroy: {} is still being finalized", communicator->text()));
    return check_ready(*communicator, "ncclCommDestroy");
  }
  take(comm, "ncclCommDestroy");
  wait_for_work(*communicator);
  close_communicator(*communicator, Presence::kDestroyed);
  count(&Counts::communicators_destroyed);
  return Result::kSuccess;
}

Result ncclCommAbort(nccl::Comm comm) {
  if (comm == nullptr) return Result::kSuccess;
  const auto communicator = take(comm, "ncclCommAbort");
  if (communicator == nullptr) return failed(Result::kInvalidArgument, "ncclCommAbort: not a communicator");
  std::this_thread::sleep_for(std::chrono::milliseconds(options().abort_ms));
  end_work_of(*communicator);
  close_communicator(*communicator, Presence::kAborted);
  end_work_of(*communicator);  // what its launching thread has begun meanwhile
  count(&Counts::communicators_aborted);
  return Result::kSuccess;
}
}

}  // namespace hora::fake_nccl
