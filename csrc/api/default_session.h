#pragma once

#include <memory>

#include "api/session.h"
#include "transport/mpi_module.h"

namespace hora {

/// The one session that the front ends of a process share; the only mutable state of the process that is
/// ours.

/// Starts it with the settings of the environment; does nothing when it runs already. Throws
/// Error(kInvalidArgument) for a bad setting and Error(kStartup) when the job cannot be joined, or in a
/// process forked after init. `scope` may choose some of the launched processes; all of them call this.
void init_default_session(const JobScope& scope = {});

/// Ends it; does nothing when there is none, or in a forked child, to which it does not belong.
void shutdown_default_session();

[[nodiscard]] bool has_default_session();

/// Throws Error(kNotInitialized) when there is none, Error(kSessionFailed) in a forked child.
[[nodiscard]] std::shared_ptr<Session> default_session();

}  // namespace hora
