#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/session.h"
#include "base/thread_stack.h"
#include "transport/mpi_module.h"

namespace hora {

/// What a front end knows of its language.
struct FrontEndServices {
  std::vector<std::string> library_folders;  ///< where packages keep the libraries that they need
  std::function<void()>
      free_gpu_memory;  ///< asks the framework to give unused memory back; called within `submit`
  std::optional<ThreadStack> main_thread;  ///< to tell others what this rank is doing
};

/// The one session that the front ends of a process share; the only mutable state of the process that is
/// ours.

/// Starts it with the settings of the environment; does nothing when it runs already. Throws
/// Error(kInvalidArgument) for a bad setting and Error(kStartup) when the job cannot be joined, or in a
/// process forked after init. `scope` may choose some of the launched processes; all of them call this.
void init_default_session(const JobScope& scope = {}, FrontEndServices services = {});

/// What tensors on GPUs would use.
struct GpuProbe {
  bool has_driver;
  std::string driver;                      ///< where it was found, or what is missing
  int nccl_version;                        ///< such as 22809; 0 where there is none
  std::string nccl;                        ///< likewise
  std::vector<std::string> nccl_features;  ///< functions that are used and that older versions lack
};
[[nodiscard]] GpuProbe probe_gpus(const std::vector<std::string>& library_folders);

/// Ends it; does nothing when there is none, or in a forked child, to which it does not belong. `cause`: see
/// Session::leave.
void leave_default_session(const std::string& cause);
void shutdown_default_session();

/// Tells the other ranks why this process is about to end, within a deadline; does nothing when there is no
/// session, or in a forked child.
void give_up_default_session(const std::string& reason);

[[nodiscard]] bool has_default_session();

/// Throws Error(kNotInitialized) when there is none, Error(kSessionFailed) in a forked child.
[[nodiscard]] std::shared_ptr<Session> default_session();

}  // namespace hora
