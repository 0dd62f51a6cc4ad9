#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "transport/mpi_module.h"
#include "transport/transport.h"

namespace hora {

/// Connects this process to the other ranks of its job: over MPI when it was started by an MPI launcher or
/// when MPI already runs in this process, else as a job of one rank. Throws Error(kStartup) when the launcher
/// started more processes than MPI sees, or versions or settings differ between ranks. `scope` may choose
/// some of them. `before_finalize` is called when MPI is about to be finalised, by whomever. Lines of the log
/// show the rank from here on.
[[nodiscard]] std::unique_ptr<Transport> open_transport(const Settings& settings,
                                                        const Environment& environment, const JobScope& scope,
                                                        void (*before_finalize)());

/// The variable that says which launcher has started this process; empty where none has.
[[nodiscard]] std::string launcher_variable(const Environment& environment);

/// Whether MPI can be used here: its version, or why not. Does not initialise it.
struct MpiProbe {
  bool usable;
  std::string text;
};
[[nodiscard]] MpiProbe probe_mpi();

/// Whether MPI runs in this process and may be called from several threads at once.
[[nodiscard]] bool mpi_allows_threads();

/// At process exit nothing of MPI may run any more, because the job is broken.
void abandon_mpi();

}  // namespace hora
