#include "api/default_session.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "api/banner.h"
#include "backends/cuda/cuda_library.h"
#include "backends/nccl/nccl_library.h"
#include "base/error.h"
#include "base/horovod_variables.h"
#include "base/last_signal.h"
#include "base/log.h"
#include "base/stragglers.h"
#include "transport/registry.h"
#include "transport/shm/host_memory.h"

namespace hora {
namespace {

/// Lock map: session, process -> mutex; stragglers guards itself.
struct Slot {
  std::mutex mutex;
  std::shared_ptr<Session> session;
  pid_t process = 0;  ///< that started the session
  const std::shared_ptr<Stragglers> stragglers = std::make_shared<Stragglers>();

  [[nodiscard]] bool is_foreign() const { return session && process != getpid(); }
};

/// Never destroyed: a forked child must not end its parent's session when it exits.
Slot& slot() {
  static auto* instance = new Slot;
  return *instance;
}

constexpr const char* kForked =
    "this process was forked after hora.init(), and the session belongs to its parent; start processes that "
    "use hora "
    "through the launcher, or fork before init()";

void tell_horovod_variables() {
  const HorovodVariables found = find_horovod_variables(process_environment);
  if (!found.without_meaning.empty()) {
    log_warning(found.text());
  } else if (!found.used.empty()) {
    log_info(found.text());
  }
}

/// Empty where there is no home.
std::string usual_cache_folder() {
  if (const auto caches = process_environment("XDG_CACHE_HOME"); caches && !caches->empty())
    return *caches + "/hora";
  const auto home = process_environment("HOME");
  return home && !home->empty() ? *home + "/.cache/hora" : "";
}

/// Descriptors that children keep open would hide from the peers that this process has ended.
void close_in_forked_children() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    note_last_signal(nullptr);  // how the child ends is no news of its parent
    // No lock: the thread that held it is not here.
    if (slot().session) slot().session->close_in_child();
  });
  static_cast<void>(registered);
}

void show_banner(const Session& session) {
  const Topology& topology = session.topology();
  if (topology.size() == 1) return;
  static std::once_flag shown;
  std::call_once(shown, [&] {
    print_line(banner(topology, session.transport_name(), launcher_variable(process_environment)), 0,
               topology.size());
  });
}

/// A GPU that is still at something of a failed session may write to its tensors, whoever has them now.
void require_no_stragglers() {
  const std::string problem = slot().stragglers->wait();
  if (problem.empty()) return;
  raise(ErrorKind::kStartup,
        "an earlier session of this process has failed, and {}: what the GPU may still be at is left as it "
        "is, and hora cannot start here again; start a new process",
        problem);
}

std::shared_ptr<Session> start_session(const JobScope& scope, FrontEndServices services) {
  require_no_stragglers();
  Settings settings = read_settings(process_environment);
  settings.device.library_folders = std::move(services.library_folders);
  settings.device.free_memory = std::move(services.free_gpu_memory);
  if (services.main_thread)
    settings.main_thread_stack = [stack = *services.main_thread](Duration at_most) {
      return stack.read(at_most);
    };
  settings.device.stragglers = slot().stragglers;
  if (settings.device.cache_folder.empty()) settings.device.cache_folder = usual_cache_folder();
  auto transport = open_transport(settings, process_environment, scope, shutdown_default_session);
  const int rank = transport->topology().rank();
  if (rank == 0) tell_horovod_variables();
  const HostMemory* const memory = transport->host_memory();
  auto session = std::make_shared<Session>(std::move(transport), settings);
  if (memory != nullptr) note_last_signal(&memory->board(memory->rank()).signal.value);
  if (settings.banner && rank == 0) show_banner(*session);
  return session;
}

}  // namespace

void init_default_session(const JobScope& scope, FrontEndServices services) {
  const std::lock_guard lock(slot().mutex);
  if (slot().is_foreign()) raise(ErrorKind::kStartup, "{}", kForked);
  if (slot().session) return;
  slot().session = start_session(scope, std::move(services));
  slot().process = getpid();
  close_in_forked_children();
  // Handlers run in reverse order: after MPI's, which start_session may have registered, so before it at
  // exit.
  static const int registered = std::atexit(shutdown_default_session);
  static_cast<void>(registered);
}

GpuProbe probe_gpus(const std::vector<std::string>& library_folders) {
  const Settings settings = read_settings(process_environment);
  const cuda::CudaLibrary cuda = cuda::open_cuda(settings.device.cuda_library);
  const nccl::NcclLibrary nccl = nccl::open_nccl(settings.device.nccl_library, library_folders);
  return {cuda.driver != nullptr, cuda.driver ? cuda.place : cuda.problem, nccl.version,
          nccl.nccl ? nccl.place : nccl.problem, nccl.features};
}

void shutdown_default_session() {
  leave_default_session("");
}

void leave_default_session(const std::string& cause) {
  std::shared_ptr<Session> ending;
  {
    const std::lock_guard lock(slot().mutex);
    if (slot().is_foreign()) return;
    ending = std::exchange(slot().session, nullptr);
    note_last_signal(nullptr);
  }
  if (ending) ending->leave(cause);
}

void give_up_default_session(const std::string& reason) {
  constexpr auto kTime = std::chrono::seconds(2);
  std::shared_ptr<Session> ending;
  {
    const std::lock_guard lock(slot().mutex);
    if (!slot().is_foreign()) ending = slot().session;
  }
  if (ending) ending->give_up(reason, Clock::now() + kTime);
}

bool has_default_session() {
  const std::lock_guard lock(slot().mutex);
  return slot().session && !slot().is_foreign();
}

std::shared_ptr<Session> default_session() {
  const std::lock_guard lock(slot().mutex);
  if (slot().is_foreign()) raise(ErrorKind::kSessionFailed, "{}", kForked);
  if (!slot().session) raise(ErrorKind::kNotInitialized, "hora has not been initialised; call init() first");
  return slot().session;
}

}  // namespace hora
