#include "base/horovod_variables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

namespace hora {
namespace {

/// Horovod's run-time variables other than those that stand for a setting of ours.
constexpr std::string_view kOthers[] = {
    "HOROVOD_CYCLE_TIME",
    "HOROVOD_HIERARCHICAL_ALLREDUCE",
    "HOROVOD_HIERARCHICAL_ALLGATHER",
    "HOROVOD_TORUS_ALLREDUCE",
    "HOROVOD_AUTOTUNE",
    "HOROVOD_AUTOTUNE_LOG",
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
    "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
    "HOROVOD_TIMELINE",
    "HOROVOD_TIMELINE_MARK_CYCLES",
    "HOROVOD_THREAD_AFFINITY",
    "HOROVOD_NUM_NCCL_STREAMS",
    "HOROVOD_BATCH_D2D_MEMCOPIES",
    "HOROVOD_DISABLE_GROUP_FUSION",
    "HOROVOD_DISABLE_NVTX_RANGES",
    "HOROVOD_ENABLE_ASYNC_COMPLETION",
    "HOROVOD_DYNAMIC_PROCESS_SETS",
    "HOROVOD_ENABLE_XLA_OPS",
    "HOROVOD_CPU_OPERATIONS",
    "HOROVOD_CONTROLLER",
    "HOROVOD_MPI_THREADS_DISABLE",
    "HOROVOD_CCL_CACHE",
    "HOROVOD_GLOO_IFACE",
    "HOROVOD_ADASUM_MPI_CHUNK_SIZE",
    "HOROVOD_ELASTIC",
    "HOROVOD_GLOO_TIMEOUT_SECONDS",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR",
    "HOROVOD_GLOO_RENDEZVOUS_PORT",
    "HOROVOD_HOSTNAME",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
    "HOROVOD_CROSS_RANK",
    "HOROVOD_CROSS_SIZE",
    "HOROVOD_LOG_HIDE_TIME",
    "HOROVOD_ELASTIC_TIMEOUT",
};

}  // namespace

std::string HorovodVariables::text() const {
  std::string result;
  if (!used.empty()) result = fmt::format("variables of Horovod are read: {}", fmt::join(used, ", "));
  if (without_meaning.empty()) return result;
  return fmt::format("{}{}without meaning here: {}", result, result.empty() ? "variables of Horovod " : "; ",
                     fmt::join(without_meaning, ", "));
}

HorovodVariables find_horovod_variables(const Environment& environment) {
  HorovodVariables found;
  for (const SettingInfo& setting : setting_table()) {
    for (const std::string_view name : {setting.horovod_name, setting.horovod_off}) {
      if (name.empty() || !environment(name)) continue;
      const auto deciding = deciding_variable(setting, environment);
      if (deciding && deciding->name == name) {
        found.used.push_back(fmt::format("{} as {}", name, setting.name));
      } else if (deciding) {
        found.without_meaning.push_back(fmt::format("{} ({} is set)", name, deciding->name));
      }
    }
  }
  for (const std::string_view name : kOthers) {
    if (environment(name)) found.without_meaning.emplace_back(name);
  }
  return found;
}

}  // namespace hora
