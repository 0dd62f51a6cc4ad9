#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/faults.h"
#include "base/stall_times.h"

namespace hora {

class Stragglers;

/// What is fixed about how data moves; the rest is chosen.
struct RouteSettings {
  std::optional<bool> one_phase;
  std::optional<bool> streaming;
  std::uint64_t block_bytes = 0;  ///< 0: chosen
  std::optional<bool> doubling;
  std::uint32_t across_bytes = 60 * 1024;
};

/// What concerns tensors on GPUs.
struct DeviceSettings {
  std::string cuda_library;                  ///< file; empty: searched
  std::string nccl_library;                  ///< file; empty: searched
  std::vector<std::string> library_folders;  ///< of Python packages; no variable sets this
  std::string cache_folder;                  ///< empty: nothing is kept
  Duration timeout = std::chrono::seconds(600);
  bool blocking = false;
  bool waits_on_host = false;
  std::function<void()> free_memory = {};  ///< asks the framework to give unused memory of the device back
  std::shared_ptr<Stragglers> stragglers = {};  ///< of the process; null: those of the session alone
};

/// Every setting of the library, read once when a session starts. Defaults are the member initialisers.
struct Settings {
  std::uint64_t fusion_threshold = 32u << 20;
  std::uint64_t cache_capacity = 65536;
  std::uint64_t piece_bytes = 64u << 20;
  std::vector<int> host_split;
  bool joins_like_horovod = false;
  bool deterministic = false;
  RouteSettings route;
  DeviceSettings device;
  Duration start_timeout = std::chrono::seconds(120);
  StallTimes stalls{.warning = std::chrono::seconds(60)};
  bool shared_memory = true;
  std::string shared_memory_directory;
  std::uint64_t shared_heap_bytes = std::uint64_t{32} << 30;
  std::string log_level = "warning";
  bool banner = true;
  std::vector<Fault> faults;
  Duration leave_limit = std::chrono::seconds(10);  ///< for an orderly end to wait; no variable sets this
  std::function<std::string(Duration at_most)> main_thread_stack = {};  ///< no variable sets this
};

/// One documented row per setting: what `python -m hora --settings` and the reference print.
struct SettingInfo {
  std::string_view name;
  std::string_view fallback;  ///< the default, as one would write it
  std::string_view range;     ///< accepted values and unit
  std::string_view meaning;
  std::function<void(Settings&, std::string_view value)>
      parse;                           ///< throws std::invalid_argument on a bad value
  std::string_view horovod_name = {};  ///< Horovod's variable of this meaning, read when `name` is not set
  /// Its value as text, for a setting that has to be the same on all ranks.
  std::function<std::string(const Settings&)> common = {};
  std::string_view horovod_off = {};  ///< Horovod's flag that means 0, read when `name` is not set
};

[[nodiscard]] std::span<const SettingInfo> setting_table();

/// Looks a variable up; nothing when it is not set.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

/// A variable that decides a setting, and its value.
struct Variable {
  std::string_view name;
  std::string value;
};

/// Which variable decides a setting: ours before Horovod's; nothing when neither is set. One of Horovod's
/// that is empty counts as not set.
[[nodiscard]] std::optional<Variable> deciding_variable(const SettingInfo& setting,
                                                        const Environment& environment);

/// Reads all settings. Throws Error(kInvalidArgument) naming the variable, its value and its range.
[[nodiscard]] Settings read_settings(const Environment& environment);

/// A value that ranks compare.
struct NamedValue {
  std::string name;
  std::string value;
  bool operator==(const NamedValue&) const = default;
};

/// The settings that have to be the same on all ranks.
[[nodiscard]] std::vector<NamedValue> common_values(const Settings& settings);

/// The environment of this process.
[[nodiscard]] std::optional<std::string> process_environment(std::string_view name);

}  // namespace hora
