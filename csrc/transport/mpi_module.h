#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/transport.h"

namespace hora {

/// Which MPI processes form the job: all of MPI_COMM_WORLD unless one of these is given.
struct JobScope {
  std::vector<int> ranks;           ///< of MPI_COMM_WORLD; numbered in this order within the job
  std::optional<int> communicator;  ///< Fortran handle of a communicator of the user

  [[nodiscard]] bool is_world() const { return ranks.empty() && !communicator; }
};

/// The functions of libhora_mpi.so, the one library that is linked against MPI. It is loaded on demand, so
/// that everything else works where there is no MPI.
struct MpiModule {
  /// Uses MPI as it is or initialises it, and connects the processes of the job, which all call this. Throws
  /// Error(kStartup), also when some of them have not come in time, or Error(kInvalidArgument) for a scope
  /// without this process. `before_finalize` is
  /// called when MPI is about to be finalised, by whomever; MPI still works then.
  std::unique_ptr<Transport> (*open)(const JobScope& scope, const std::vector<int>& host_split,
                                     Duration timeout, void (*before_finalize)());
  /// Whether this process has initialised MPI and not yet finalised it.
  bool (*is_active)();
  /// Whether MPI may be called from several threads at once; only while it is active.
  bool (*allows_threads)();
  std::string (*version)();
  /// MPI will not be finalised when this process exits.
  void (*abandon)();
};

/// The one symbol that libhora_mpi.so is asked for.
inline constexpr const char* kMpiModuleSymbol = "hora_mpi_module";

}  // namespace hora
