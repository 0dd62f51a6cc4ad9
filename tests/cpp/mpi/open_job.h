#pragma once

#include <memory>

#include "base/config.h"
#include "transport/registry.h"

namespace hora::testing {

/// Joins the other processes of this mpirun; all ranks do so alike.
inline std::unique_ptr<Transport> open_job(const Settings& settings = {}) {
  return open_transport(settings, process_environment, {}, [] {});
}

}  // namespace hora::testing
