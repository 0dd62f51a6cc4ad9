#include "base/config.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace hora {
namespace {

std::uint64_t parse_number(std::string_view value, std::uint64_t lowest, std::uint64_t highest) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < lowest || number > highest) {
    throw std::invalid_argument("not in range");
  }
  return number;
}

std::vector<int> parse_host_split(std::string_view value) {
  std::vector<int> ranks_per_host;
  while (!value.empty()) {
    const auto comma = value.find(',');
    ranks_per_host.push_back(static_cast<int>(parse_number(value.substr(0, comma), 1, 1u << 24)));
    if (comma == std::string_view::npos) return ranks_per_host;
    value.remove_prefix(comma + 1);
  }
  throw std::invalid_argument("empty");
}

std::string parse_log_level(std::string_view value) {
  if (value == "fatal") return "error";  // one of Horovod's levels
  for (const std::string_view known : {"trace", "debug", "info", "warning", "error", "off"}) {
    if (value == known) return std::string(value);
  }
  throw std::invalid_argument("unknown level");
}

bool parse_join_rule(std::string_view value) {
  if (value != "contributors" && value != "horovod") throw std::invalid_argument("unknown rule");
  return value == "horovod";
}

std::optional<bool> parse_choice(std::string_view value, std::string_view yes, std::string_view no) {
  if (value == "auto") return std::nullopt;
  if (value != yes && value != no) throw std::invalid_argument("unknown choice");
  return value == yes;
}

bool parse_flag(std::string_view value) {
  for (const std::string_view yes : {"1", "true", "yes", "on"})
    if (value == yes) return true;
  for (const std::string_view no : {"0", "false", "no", "off"})
    if (value == no) return false;
  throw std::invalid_argument("not a flag");
}

/// As Horovod reads a flag: what is none is off.
bool is_on(std::string_view value) {
  try {
    return parse_flag(value);
  } catch (const std::invalid_argument&) {
    return false;
  }
}

Duration parse_seconds(std::string_view value, std::uint64_t least) {
  return std::chrono::seconds(parse_number(value, least, 1'000'000));
}

std::string show_choice(std::optional<bool> value, std::string_view yes, std::string_view no) {
  return std::string(!value ? "auto" : *value ? yes : no);
}

std::string show_seconds(Duration value) {
  return std::to_string(whole_seconds(value));
}

std::string show_flag(bool value) {
  return value ? "true" : "false";
}

constexpr std::uint64_t kTebi = std::uint64_t{1} << 40;

const std::vector<SettingInfo>& table() {
  static const std::vector<SettingInfo> rows{
      {"HORA_FUSION_THRESHOLD", "33554432", "0 to 2^40 bytes",
       "Tensors that are ready together travel in one batch up to this size; 0 sends each alone. The same on "
       "all ranks.",
       [](Settings& s, std::string_view v) { s.fusion_threshold = parse_number(v, 0, kTebi); },
       "HOROVOD_FUSION_THRESHOLD", [](const Settings& s) { return fmt::to_string(s.fusion_threshold); }},
      {"HORA_CACHE_CAPACITY", "65536", "0 to 2^31 names",
       "So many tensors get a small id after their first use; further ones announce their full description "
       "each time. The same on all ranks.",
       [](Settings& s, std::string_view v) { s.cache_capacity = parse_number(v, 0, std::uint64_t{1} << 31); },
       "HOROVOD_CACHE_CAPACITY", [](const Settings& s) { return fmt::to_string(s.cache_capacity); }},
      {"HORA_PIECE_BYTES",
       "67108864",
       "1 to 2^30 bytes",
       "Largest single message between two ranks; longer ones are cut. The same on all ranks.",
       [](Settings& s, std::string_view v) { s.piece_bytes = parse_number(v, 1, std::uint64_t{1} << 30); },
       {},
       [](const Settings& s) { return fmt::to_string(s.piece_bytes); }},
      {"HORA_HOST_SPLIT",
       "",
       "ranks per host, such as 3,2; their sum is the number of ranks",
       "Pretends that the ranks are spread over hosts of these sizes, to test code for several hosts on one. "
       "The same on "
       "all ranks.",
       [](Settings& s, std::string_view v) { s.host_split = parse_host_split(v); },
       {},
       [](const Settings& s) { return join(s.host_split, ","); }},
      {"HORA_JOIN_RULE",
       "contributors",
       "contributors or horovod",
       "What happens while ranks have joined. contributors: Average divides by the ranks that contribute, "
       "and every collective goes on. horovod: it divides by all ranks, and only allreduce and barrier go "
       "on. The same on all ranks.",
       [](Settings& s, std::string_view v) { s.joins_like_horovod = parse_join_rule(v); },
       {},
       [](const Settings& s) { return std::string(s.joins_like_horovod ? "horovod" : "contributors"); }},
      {"HORA_SHARED_MEMORY",
       "true",
       "true or false",
       "Ranks of one host talk through shared memory; without it, everything goes over MPI. The same on all "
       "ranks.",
       [](Settings& s, std::string_view v) { s.shared_memory = parse_flag(v); },
       {},
       [](const Settings& s) { return show_flag(s.shared_memory); }},
      {"HORA_SHARED_MEMORY_DIRECTORY", "", "a directory on a tmpfs, such as /dev/shm",
       "Where shared memory is taken from instead of anonymous memory; only to limit it.",
       [](Settings& s, std::string_view v) { s.shared_memory_directory = std::string(v); }},
      {"HORA_SHARED_HEAP_BYTES", "34359738368", "4096 to 2^40 bytes",
       "Address space in which each rank can allocate shared memory. Memory is taken only as it is "
       "allocated.",
       [](Settings& s, std::string_view v) { s.shared_heap_bytes = parse_number(v, 4096, kTebi); }},
      {"HORA_REDUCTION",
       "auto",
       "auto, one-phase or two-phase",
       "How ranks that share memory reduce: every rank everything, or every rank a slice which the others "
       "then "
       "read. auto measures. The same on all ranks.",
       [](Settings& s, std::string_view v) { s.route.one_phase = parse_choice(v, "one-phase", "two-phase"); },
       {},
       [](const Settings& s) { return show_choice(s.route.one_phase, "one-phase", "two-phase"); }},
      {"HORA_STREAMING",
       "auto",
       "auto, true or false",
       "Whether ranks that share memory write blocks for each other past the caches. auto measures. The same "
       "on all ranks.",
       [](Settings& s, std::string_view v) { s.route.streaming = parse_choice(v, "true", "false"); },
       {},
       [](const Settings& s) { return show_choice(s.route.streaming, "true", "false"); }},
      {"HORA_BLOCK_BYTES",
       "0",
       "0, or 64 to 524288 bytes",
       "Size of the blocks in which ranks that share memory hand each other data; 0 measures. The same on "
       "all ranks.",
       [](Settings& s, std::string_view v) {
         s.route.block_bytes = parse_number(v, 0, 512 * 1024);
         if (s.route.block_bytes != 0 && s.route.block_bytes < 64) throw std::invalid_argument("too small");
       },
       {},
       [](const Settings& s) { return fmt::to_string(s.route.block_bytes); }},
      {"HORA_ALLREDUCE_BETWEEN_HOSTS",
       "auto",
       "auto, ring or doubling",
       "How allreduce goes between ranks that share no memory: in a ring, which sends the fewest bytes, or "
       "by "
       "recursive doubling, which sends the fewest messages. auto: doubling below 64 KiB. The same on all "
       "ranks.",
       [](Settings& s, std::string_view v) { s.route.doubling = parse_choice(v, "doubling", "ring"); },
       {},
       [](const Settings& s) { return show_choice(s.route.doubling, "doubling", "ring"); }},
      {"HORA_PIECE_BYTES_BETWEEN_HOSTS",
       "61440",
       "1 to 2^30 bytes",
       "Largest single message between two ranks of different hosts. MPI sends messages up to some size at "
       "once "
       "(64 KiB over TCP) and asks the receiver before longer ones; the answer then waits behind the data "
       "that goes "
       "the other way. The same on all ranks.",
       [](Settings& s, std::string_view v) {
         s.route.across_bytes = static_cast<std::uint32_t>(parse_number(v, 1, std::uint64_t{1} << 30));
       },
       {},
       [](const Settings& s) { return fmt::to_string(s.route.across_bytes); }},
      {"HORA_DETERMINISTIC",
       "false",
       "true or false",
       "Makes results the same to the last bit from run to run also between hosts and of Adasum, where the "
       "order of a sum otherwise depends on what a tensor travels with: such calls travel alone. All others "
       "on "
       "one host with shared memory always are. The same on all ranks.",
       [](Settings& s, std::string_view v) { s.deterministic = parse_flag(v); },
       {},
       [](const Settings& s) { return show_flag(s.deterministic); }},
      {"HORA_CUDA_LIBRARY", "", "a file; empty: searched",
       "The CUDA driver, libcuda.so.1. Searched when a tensor on a GPU comes for the first time.",
       [](Settings& s, std::string_view v) { s.device.cuda_library = std::string(v); }},
      {"HORA_NCCL_LIBRARY", "", "a file; empty: searched",
       "NCCL, libnccl.so.2. Otherwise the copy that the program has loaded already is used, then that of the "
       "Python package nvidia-nccl-cu12 or nvidia-nccl-cu13, then the system's.",
       [](Settings& s, std::string_view v) { s.device.nccl_library = std::string(v); }},
      {"HORA_CACHE_FOLDER", "", "a folder; empty: hora in XDG_CACHE_HOME, or in .cache of the home folder",
       "Keeps the packing kernels where they had to be compiled for a GPU, because hora was built without "
       "nvcc.",
       [](Settings& s, std::string_view v) { s.device.cache_folder = std::string(v); }},
      {"HORA_DEVICE_TIMEOUT", "600", "1 to 10^6 seconds",
       "How long a GPU may be at one batch, and NCCL at one call, before the job fails with the name of the "
       "tensor.",
       [](Settings& s, std::string_view v) { s.device.timeout = parse_seconds(v, 1); }},
      {"HORA_NCCL_BLOCKING", "false", "true or false",
       "Lets NCCL wait inside of its calls, for comparison. A rank that fails is then noticed later.",
       [](Settings& s, std::string_view v) { s.device.blocking = parse_flag(v); }},
      {"HORA_WAIT_ON_HOST", "false", "true or false",
       "Lets synchronize block until the GPU is through with an operation, not only until it has been told "
       "what "
       "to do, so that a failure is raised where it belongs.",
       [](Settings& s, std::string_view v) { s.device.waits_on_host = parse_flag(v); }},
      {"HORA_START_TIMEOUT_SECONDS", "120", "1 to 10^6 seconds",
       "How long init waits for the other ranks, at each of its steps, before it fails.",
       [](Settings& s, std::string_view v) { s.start_timeout = parse_seconds(v, 1); },
       "HOROVOD_START_TIMEOUT"},
      {"HORA_STALL_WARNING_SECONDS", "60", "0 to 10^6 seconds",
       "After so long, and again every time as long, rank 0 tells which calls wait, for which ranks, and "
       "what "
       "these are doing; 0 never. The same on all ranks.",
       [](Settings& s, std::string_view v) { s.stalls.warning = parse_seconds(v, 0); },
       "HOROVOD_STALL_CHECK_TIME_SECONDS", [](const Settings& s) { return show_seconds(s.stalls.warning); },
       "HOROVOD_STALL_CHECK_DISABLE"},
      {"HORA_STALL_ABORT_SECONDS", "0", "0 to 10^6 seconds",
       "After so long the job fails with the names of the calls and of the ranks that have not made them; 0 "
       "never. The same on all ranks.",
       [](Settings& s, std::string_view v) { s.stalls.abort = parse_seconds(v, 0); },
       "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", [](const Settings& s) { return show_seconds(s.stalls.abort); }},
      {"HORA_FAULTS",
       "",
       "POINT:RANK:HIT:ACTION, and more of these behind commas",
       "For tests: what a rank does to itself when it comes to a point for the HIT-th time. Points: "
       "after_agreement, in_batch, before_completion, before_message, in_allocation, in_departure. Actions: "
       "kill, stop, delay=SECONDS; drop and corrupt a message; fail an allocation. The same on all ranks.",
       [](Settings& s, std::string_view v) { s.faults = parse_faults(v); },
       {},
       [](const Settings& s) { return to_string(s.faults); }},
      {"HORA_BANNER", "true", "true or false",
       "Whether rank 0 of several says on stderr, in one line, what has been started.",
       [](Settings& s, std::string_view v) { s.banner = parse_flag(v); }},
      {"HORA_LOG_LEVEL", "warning", "trace, debug, info, warning, error or off", "What is written to stderr.",
       [](Settings& s, std::string_view v) { s.log_level = parse_log_level(v); }, "HOROVOD_LOG_LEVEL"},
  };
  return rows;
}

}  // namespace

std::span<const SettingInfo> setting_table() {
  return table();
}

std::optional<Variable> deciding_variable(const SettingInfo& setting, const Environment& environment) {
  const auto variable = [&](std::string_view name) {
    return name.empty() ? std::nullopt : environment(name);
  };
  if (auto value = variable(setting.name)) return Variable{setting.name, std::move(*value)};
  if (const auto flag = variable(setting.horovod_off); flag && is_on(*flag))
    return Variable{setting.horovod_off, "0"};
  if (auto value = variable(setting.horovod_name); value && !value->empty())
    return Variable{setting.horovod_name, std::move(*value)};
  return std::nullopt;
}

Settings read_settings(const Environment& environment) {
  Settings settings;
  for (const SettingInfo& row : setting_table()) {
    const auto variable = deciding_variable(row, environment);
    if (!variable || (variable->value.empty() && row.fallback.empty())) continue;
    try {
      row.parse(settings, variable->value);
    } catch (const std::invalid_argument&) {
      raise(ErrorKind::kInvalidArgument, "{}={}: expected {}", variable->name, variable->value, row.range);
    }
  }
  return settings;
}

std::vector<NamedValue> common_values(const Settings& settings) {
  std::vector<NamedValue> values;
  for (const SettingInfo& row : setting_table()) {
    if (row.common) values.push_back({std::string(row.name), row.common(settings)});
  }
  return values;
}

std::optional<std::string> process_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

}  // namespace hora
