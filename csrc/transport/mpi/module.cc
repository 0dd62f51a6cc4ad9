#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <semaphore>
#include <thread>
#include <utility>

#include "base/config.h"
#include "base/log.h"
#include "base/network_interfaces.h"
#include "base/text.h"
#include "base/thread.h"
#include "transport/mpi/check.h"
#include "transport/mpi/mpi_transport.h"
#include "transport/mpi_module.h"

namespace hora {
namespace {

/// MPI can be started only once per process, so what we know of it is the process's as well.
struct OwnMpi {
  pid_t process = 0;  ///< the process that initialised MPI through us, if any
  bool abandoned = false;
  std::atomic<bool> is_starting = false;  ///< a thread of ours waits in MPI for other ranks
  std::binary_semaphore may_finalize{0};  ///< told to the thread that has initialised MPI
  std::binary_semaphore is_finalized{0};  ///< told by it
};
OwnMpi own_mpi;

bool is_initialized() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized != 0;
}

bool is_finalized() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

/// A forked child leaves its parent's MPI alone, and so does a process that has failed or whose job is
/// broken: MPI_Finalize waits for all ranks, however late they end, and a launcher ends the others when one
/// ends without it.
void finalize_at_exit(int status, void*) {
  const bool is_orderly = status == 0 && !own_mpi.abandoned;
  if (!is_orderly || own_mpi.process != getpid() || is_finalized()) return;
  own_mpi.may_finalize.release();
  own_mpi.is_finalized.acquire();
}

/// MPI is to be finalised by the thread that has initialised it.
void finalize_when_told() {
  own_mpi.may_finalize.acquire();
  MPI_Finalize();
  own_mpi.is_finalized.release();
}

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

/// Whether Open MPI is left to choose TCP.
bool may_use_tcp() {
  const std::string pml = process_environment("OMPI_MCA_pml").value_or("ob1");
  const std::string btl = process_environment("OMPI_MCA_btl").value_or("tcp");
  const bool is_listed = btl.find("tcp") != std::string::npos;
  return pml == "ob1" && is_listed != btl.starts_with('^');
}

/// Open MPI says of a wrong name only that its value is ignored, and not always.
void check_interfaces() {
  constexpr std::string_view kVariable = "OMPI_MCA_btl_tcp_if_include";
  const std::string list = process_environment(kVariable).value_or("");
  const std::string missing = may_use_tcp() ? missing_interfaces(list) : "";
  if (!missing.empty()) raise(ErrorKind::kStartup, "{}={}: {}", kVariable, list, missing);
}

void start_mpi() {
  check_interfaces();
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
  own_mpi.process = getpid();
  on_exit(finalize_at_exit, nullptr);
  if (level < MPI_THREAD_SERIALIZED) {
    raise(ErrorKind::kStartup, "this MPI offers only {}; hora needs a build with MPI_THREAD_MULTIPLE",
          level_name(level));
  }
}

bool allows_threads() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return level == MPI_THREAD_MULTIPLE;
}

/// The user started MPI and may call it at any time from other threads than ours.
void check_foreign_mpi() {
  if (allows_threads()) return;
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  raise(ErrorKind::kStartup,
        "MPI was initialised before hora with {}, but hora needs MPI_THREAD_MULTIPLE: call hora.init() "
        "first, or ask for "
        "that level (mpi4py: mpi4py.rc.thread_level = 'multiple' before importing mpi4py.MPI)",
        level_name(level));
}

/// MPI may not be finalised while a thread is in it: then it would wait for the same ranks, or crash.
void abort_if_still_starting() {
  if (!own_mpi.abandoned || !own_mpi.is_starting) return;
  log_error(
      "the program ends MPI while a start of hora that took too long still waits in it for other ranks, so "
      "that MPI_Finalize cannot work: all ranks are ended by MPI_Abort");
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

void (*before_finalize_hook)() = nullptr;

/// MPI deletes the attributes of MPI_COMM_SELF first of all when it is finalised.
void call_before_finalize(void (*hook)()) {
  const bool is_registered = before_finalize_hook != nullptr;
  before_finalize_hook = hook;
  if (is_registered || hook == nullptr) return;
  const auto on_delete = [](MPI_Comm, int, void*, void*) {
    abort_if_still_starting();
    before_finalize_hook();
    return MPI_SUCCESS;
  };
  int key = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, nullptr),
            "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
}

bool is_active() {
  return is_initialized() && !is_finalized();
}

/// A communicator for the scope, and whether it has to be freed.
struct Members {
  MPI_Comm communicator = MPI_COMM_WORLD;
  bool is_own = false;
};

Members members_of(const JobScope& scope) {
  if (scope.communicator) return {MPI_Comm_f2c(*scope.communicator), false};
  if (scope.ranks.empty()) return {};
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const int listed : scope.ranks) {
    if (listed < 0 || listed >= size || std::ranges::count(scope.ranks, listed) > 1) {
      raise(ErrorKind::kInvalidArgument, "comm=[{}]: expected ranks from 0 to {}, each once",
            join(scope.ranks, ","), size - 1);
    }
  }
  if (std::ranges::find(scope.ranks, rank) == scope.ranks.end()) {
    raise(ErrorKind::kInvalidArgument,
          "comm=[{}] does not list rank {}; only ranks that are listed call init", join(scope.ranks, ","),
          rank);
  }
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group listed = MPI_GROUP_NULL;
  Members members{MPI_COMM_NULL, true};
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(world, static_cast<int>(scope.ranks.size()), scope.ranks.data(), &listed),
            "MPI_Group_incl");
  check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, listed, 0, &members.communicator), "MPI_Comm_create_group");
  MPI_Group_free(&listed);
  MPI_Group_free(&world);
  return members;
}

std::unique_ptr<Transport> connect(const JobScope& scope, const std::vector<int>& host_split,
                                   void (*before_finalize)()) {
  if (!is_initialized()) {
    start_mpi();
  } else if (own_mpi.process != getpid()) {
    check_foreign_mpi();
  }
  call_before_finalize(before_finalize);
  Members members = members_of(scope);
  auto transport = std::make_unique<MpiTransport>(members.communicator, host_split);
  if (members.is_own) MPI_Comm_free(&members.communicator);
  return transport;
}

using Connecting = std::packaged_task<std::unique_ptr<Transport>()>;

/// Calls of MPI that wait for other ranks cannot be ended, so they are made in a thread that is left to
/// itself when it takes too long. One that has initialised MPI stays to finalise it.
void run_in_thread(Connecting connecting) {
  const auto work = [](Connecting task) {
    name_this_thread("hora-mpi");
    const bool finds_none = !is_initialized();
    own_mpi.is_starting = true;
    task();
    task = {};  // what came too late ends in MPI, too
    own_mpi.is_starting = false;
    if (finds_none && is_initialized()) finalize_when_told();
  };
  std::thread(work, std::move(connecting)).detach();
}

std::unique_ptr<Transport> open(const JobScope& scope, const std::vector<int>& host_split, Duration timeout,
                                void (*before_finalize)()) {
  if (own_mpi.abandoned) {
    raise(ErrorKind::kStartup,
          "hora failed in this process before, so MPI cannot be relied on; start the job again");
  }
  if (is_finalized())
    raise(ErrorKind::kStartup, "MPI has been finalised in this process and cannot start again");
  Connecting connecting(
      [scope, host_split, before_finalize] { return connect(scope, host_split, before_finalize); });
  auto transport = connecting.get_future();
  run_in_thread(std::move(connecting));
  if (transport.wait_for(timeout) == std::future_status::ready) return transport.get();
  own_mpi.abandoned = true;
  raise(ErrorKind::kStartup, "not all ranks called init within {} s (HORA_START_TIMEOUT_SECONDS)",
        whole_seconds(timeout));
}

std::string version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

void abandon() {
  own_mpi.abandoned = true;
}

}  // namespace
}  // namespace hora

extern "C" const hora::MpiModule hora_mpi_module;
const hora::MpiModule hora_mpi_module{hora::open, hora::is_active, hora::allows_threads, hora::version,
                                      hora::abandon};
