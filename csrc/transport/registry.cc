#include "transport/registry.h"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/open_files.h"
#include "base/version.h"
#include "transport/memory.h"
#include "transport/mpi_module.h"
#include "transport/same_settings.h"
#include "transport/shm/shm_transport.h"
#include "transport/wake/linked_transport.h"

namespace hora {
namespace {

/// What the environment says about the launcher that started this process.
struct Launch {
  std::string variable;
  std::string value;
  std::optional<int> size;  ///< not every launcher tells
};

std::optional<Launch> detect_launch(const Environment& environment) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (const auto value = environment(variable)) return Launch{variable, *value, std::atoi(value->c_str())};
  }
  for (const char* variable : {"PMIX_RANK", "PMI_RANK"}) {
    if (const auto value = environment(variable)) return Launch{variable, *value, std::nullopt};
  }
  return std::nullopt;
}

bool mpi_is_loaded() {
  bool found = false;
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* result) {
        if (std::strstr(library->dlpi_name, "libmpi") != nullptr) *static_cast<bool*>(result) = true;
        return 0;
      },
      &found);
  return found;
}

struct Loaded {
  const MpiModule* module = nullptr;
  std::string reason;  ///< why there is none
};

std::string module_path() {
  Dl_info own{};
  dladdr(reinterpret_cast<const void*>(&detect_launch), &own);
  const std::string library = own.dli_fname != nullptr ? own.dli_fname : "";
  return library.substr(0, library.rfind('/') + 1) + "libhora_mpi.so";
}

Loaded load_module() {
  // Open MPI opens further libraries that look for its symbols among the global ones.
  void* library = dlopen(module_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return {nullptr, dlerror()};
  void* symbol = dlsym(library, kMpiModuleSymbol);
  if (symbol == nullptr) return {nullptr, dlerror()};
  return {static_cast<const MpiModule*>(symbol), {}};
}

const Loaded& mpi_module() {
  static const Loaded loaded = load_module();
  return loaded;
}

std::unique_ptr<Transport> make_lone_transport(const JobScope& scope) {
  if (scope.communicator || (!scope.ranks.empty() && scope.ranks != std::vector<int>{0})) {
    raise(ErrorKind::kInvalidArgument,
          "comm chooses processes of an MPI job, but this process was not started by an MPI launcher");
  }
  return make_local_transport();
}

LinkOptions link_options(const Settings& settings) {
  LinkOptions options;
  options.start_timeout = settings.start_timeout;
  return options;
}

HostMemoryOptions shared_memory_options(const Settings& settings) {
  HostMemoryOptions options;
  options.wanted = settings.shared_memory;
  options.directory = settings.shared_memory_directory;
  options.heap_bytes = settings.shared_heap_bytes;
  options.start_timeout = settings.start_timeout;
  return options;
}

std::vector<NamedValue> common_values_and_version(const Settings& settings) {
  std::vector<NamedValue> values = common_values(settings);
  values.push_back({"version of hora", std::string(version())});
  return values;
}

/// What helps where MPI cannot be loaded.
std::string cure() {
  if (!shortage_of_files(1).empty()) return describe_error(EMFILE);
  return "Install it (Debian: apt-get install openmpi-bin libopenmpi-dev) and reinstall hora";
}

/// The ranks of an MPI job, or this process alone.
std::unique_ptr<Transport> open_job(const Settings& settings, const Environment& environment,
                                    const JobScope& scope, void (*before_finalize)()) {
  const std::optional<Launch> launch = detect_launch(environment);
  if (!launch && !mpi_is_loaded()) return make_lone_transport(scope);

  const Loaded& mpi = mpi_module();
  if (mpi.module == nullptr) {
    if (!launch || launch->size.value_or(1) <= 1) return make_lone_transport(scope);
    raise(ErrorKind::kStartup,
          "the launcher started {} processes ({}), but this one sees 1, because MPI cannot be used: {}. {}",
          *launch->size, launch->variable, mpi.reason, cure());
  }
  if (!launch && !mpi.module->is_active()) return make_lone_transport(scope);

  auto transport = mpi.module->open(scope, settings.host_split, settings.start_timeout, before_finalize);
  const int size = transport->topology().size();
  if (scope.is_world() && launch && launch->size && *launch->size != size && launch->size.value() > 1) {
    raise(ErrorKind::kStartup,
          "the launcher started {} processes ({}), but MPI sees {}: hora was built against another MPI than "
          "the one "
          "whose mpirun was used ({})",
          *launch->size, launch->variable, size, mpi.module->version());
  }
  return transport;
}

}  // namespace

std::string launcher_variable(const Environment& environment) {
  const std::optional<Launch> launch = detect_launch(environment);
  return launch ? launch->variable : std::string();
}

std::unique_ptr<Transport> open_transport(const Settings& settings, const Environment& environment,
                                          const JobScope& scope, void (*before_finalize)()) {
  auto transport = open_job(settings, environment, scope, before_finalize);
  configure_log(settings.log_level, transport->topology().rank(), transport->topology().size());
  try {
    require_same(*transport, common_values_and_version(settings), settings.start_timeout);
    transport = with_links(std::move(transport), link_options(settings));
    return with_shared_memory(std::move(transport), shared_memory_options(settings));
  } catch (const Error& error) {
    // Messages may still be under way to places that are gone: MPI must not move any more of them.
    if (error.kind() == ErrorKind::kSessionFailed) abandon_mpi();
    throw;
  }
}

MpiProbe probe_mpi() {
  const Loaded& mpi = mpi_module();
  return mpi.module == nullptr ? MpiProbe{false, mpi.reason} : MpiProbe{true, mpi.module->version()};
}

bool mpi_allows_threads() {
  if (!mpi_is_loaded() || mpi_module().module == nullptr) return false;
  return mpi_module().module->is_active() && mpi_module().module->allows_threads();
}

void abandon_mpi() {
  if (mpi_is_loaded() && mpi_module().module != nullptr) mpi_module().module->abandon();
}

}  // namespace hora
