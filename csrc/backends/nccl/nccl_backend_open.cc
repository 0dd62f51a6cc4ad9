#include <fmt/format.h>

#include <memory>
#include <utility>

#include "backends/nccl/introduction.h"
#include "backends/nccl/nccl_backend.h"
#include "base/error.h"
#include "base/log.h"

namespace hora::nccl {

using cuda::DeviceScope;

/// Says no when there is not all the memory that is wanted, unless it `may_be_short`.
bool NcclBackend::open(int device, bool may_be_short) {
  const std::lock_guard lock(mutex_);
  if (is_open_) return true;
  const cuda::CudaLibrary cuda = cuda::open_cuda(settings_.cuda_library);
  if (!cuda.driver) raise(ErrorKind::kInvalidArgument, "a tensor on a GPU, but {}", cuda.problem);
  library_ = open_nccl(settings_.nccl_library, settings_.library_folders);
  if (!library_.nccl) raise(ErrorKind::kInvalidArgument, "a tensor on a GPU, but {}", library_.problem);
  device_ = std::make_shared<cuda::Device>(cuda.driver, device);
  if (!set_up_packing(may_be_short)) return false;
  pool_ = std::make_shared<cuda::MemoryPool>(device_);
  log_info(fmt::format("GPU {} ({}) with NCCL {} ({}) and the driver {}", device, device_->pci_bus_id(),
                       describe_version(library_.version), library_.place, cuda.place));
  is_open_ = true;
  return true;
}

/// The framework may be asked for memory that it keeps; not with the mutex held, because that can make it
/// wait for another thread that is here.
void NcclBackend::require_open(int device) {
  if (is_open_ || open(device, !settings_.free_memory)) return;
  settings_.free_memory();
  static_cast<void>(open(device, true));
}

bool NcclBackend::set_up_packing(bool may_be_short) {
  const DeviceScope scope(*device_);
  staging_ = Staging::allocate(library_.nccl, device_, wanted_staging_, may_be_short);
  if (!staging_) return false;
  cuda::LoadedKernels loaded = cuda::load_pack_kernels(device_->driver(), device_->number(),
                                                       {settings_.library_folders, settings_.cache_folder});
  kernels_ = std::move(loaded.kernels);
  kernels_ ? log_info(loaded.reason) : log_warning(loaded.reason);
  return true;
}

DeviceSet& NcclBackend::set_of(std::int32_t process_set, const Group& group) {
  const auto known = sets_.find(process_set);
  return known != sets_.end() ? known->second : sets_.emplace(process_set, make_set(group)).first->second;
}

/// The first batch of a process set on GPUs makes its communicator, at the same place in the sequence on all
/// members.
DeviceSet NcclBackend::make_set(const Group& group) {
  const Agreement agreed = introduce(group, *library_.nccl, *device_,
                                     {library_.version, staging_->memory().size(), kernels_ != nullptr});
  DeviceSet set;
  set.communicator = std::make_unique<Communicator>(
      library_.nccl, device_, agreed.id, group.rank(), group.size(),
      CommunicatorOptions{settings_.timeout, settings_.blocking, stragglers_, abort_limit()},
      [&group] { group.pump(); });
  set.size = group.size();
  set.staging = staging_->memory().first(agreed.staging_bytes);
  set.kernels = agreed.have_kernels ? kernels_.get() : nullptr;
  return set;
}

}  // namespace hora::nccl
