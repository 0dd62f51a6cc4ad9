#include "backends/backend.h"
#include "backends/host.h"
#include "backends/nccl/nccl_backend.h"

namespace hora {

std::vector<std::unique_ptr<Backend>> make_backends(const Settings& settings, Faults& faults) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::make_unique<HostBackend>(faults));
  backends.push_back(std::make_unique<nccl::NcclBackend>(settings));
  return backends;
}

}  // namespace hora
