#include "backends/backend.h"
#include "backends/host.h"

namespace hora {

std::vector<std::unique_ptr<Backend>> make_backends() {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::make_unique<HostBackend>());
  return backends;
}

}  // namespace hora
