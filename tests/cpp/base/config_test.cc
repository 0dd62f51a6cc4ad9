#include "base/config.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "base/error.h"

namespace hora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Settings read(const std::map<std::string, std::string>& variables) {
  return read_settings([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

struct BadValue {
  std::string name;
  std::string value;
  std::string range;
};

void PrintTo(const BadValue& bad, std::ostream* out) {
  *out << bad.name << "=" << bad.value;
}

class BadSetting : public testing::TestWithParam<BadValue> {};

TEST_P(BadSetting, is_refused_with_name_value_and_range) {
  const auto& [name, value, range] = GetParam();
  try {
    static_cast<void>(read({{name, value}}));
    FAIL() << name << "=" << value << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.what(), name + "=" + value + ": expected " + range);
  }
}

std::vector<BadValue> bad_values() {
  const std::string threshold = "0 to 2^40 bytes";
  const std::string capacity = "0 to 2^31 names";
  const std::string piece = "1 to 2^30 bytes";
  const std::string split = "ranks per host, such as 3,2; their sum is the number of ranks";
  const std::string level = "trace, debug, info, warning, error or off";
  std::vector<BadValue> bad;
  for (const char* value :
       {"", "-1", "+1", "1.5", "64M", " 1", "1 ", "0x10", "1099511627777", "99999999999999999999"})
    bad.push_back({"HORA_FUSION_THRESHOLD", value, threshold});
  for (const char* value : {"", "-1", "many", "2147483649"})
    bad.push_back({"HORA_CACHE_CAPACITY", value, capacity});
  for (const char* value : {"", "0", "-1", "1073741825"}) bad.push_back({"HORA_PIECE_BYTES", value, piece});
  for (const char* value : {",", "3,", ",3", "3,,2", "0", "3,0", "3,-1", "3;2", "3, 2", "two"})
    bad.push_back({"HORA_HOST_SPLIT", value, split});
  for (const char* value : {"", "1", "Horovod", "all"})
    bad.push_back({"HORA_JOIN_RULE", value, "contributors or horovod"});
  for (const char* value : {"", "2", "True", "maybe"})
    bad.push_back({"HORA_SHARED_MEMORY", value, "true or false"});
  for (const char* value : {"", "0", "4095", "1099511627777"})
    bad.push_back({"HORA_SHARED_HEAP_BYTES", value, "4096 to 2^40 bytes"});
  for (const char* value : {"", "one", "true"})
    bad.push_back({"HORA_REDUCTION", value, "auto, one-phase or two-phase"});
  for (const char* value : {"", "1", "on"}) bad.push_back({"HORA_STREAMING", value, "auto, true or false"});
  for (const char* value : {"", "1", "63", "524289", "auto"})
    bad.push_back({"HORA_BLOCK_BYTES", value, "0, or 64 to 524288 bytes"});
  for (const char* value : {"", "true", "tree"})
    bad.push_back({"HORA_ALLREDUCE_BETWEEN_HOSTS", value, "auto, ring or doubling"});
  for (const char* value : {"", "0", "1073741825"})
    bad.push_back({"HORA_PIECE_BYTES_BETWEEN_HOSTS", value, "1 to 2^30 bytes"});
  for (const char* value : {"", "auto", "2"}) bad.push_back({"HORA_DETERMINISTIC", value, "true or false"});
  for (const char* value : {"", "0", "-1", "1.5", "1000001"})
    bad.push_back({"HORA_START_TIMEOUT_SECONDS", value, "1 to 10^6 seconds"});
  for (const char* value : {"0", "-1", "1.5", " 30", "+30", "30s", "soon", "1000001"})
    bad.push_back({"HOROVOD_START_TIMEOUT", value, "1 to 10^6 seconds"});
  for (const char* value : {"", "warn", "WARNING", "verbose", "2"})
    bad.push_back({"HORA_LOG_LEVEL", value, level});
  return bad;
}

INSTANTIATE_TEST_SUITE_P(All, BadSetting, testing::ValuesIn(bad_values()));

TEST(Config, faults_are_refused_with_what_is_wrong_with_them) {
  try {
    static_cast<void>(read({{"HORA_FAULTS", "in_batch:1:2:drop"}}));
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "HORA_FAULTS: 'in_batch:1:2:drop': drop and corrupt are for messages: before_message");
  }
}

TEST(Config, an_empty_environment_gives_the_defaults) {
  const Settings settings = read({});
  EXPECT_EQ(settings.fusion_threshold, 33554432u);
  EXPECT_EQ(settings.cache_capacity, 65536u);
  EXPECT_EQ(settings.piece_bytes, 67108864u);
  EXPECT_TRUE(settings.host_split.empty());
  EXPECT_TRUE(settings.faults.empty());
  EXPECT_FALSE(settings.joins_like_horovod);
  EXPECT_TRUE(settings.shared_memory);
  EXPECT_EQ(settings.shared_memory_directory, "");
  EXPECT_EQ(settings.shared_heap_bytes, std::uint64_t{32} << 30);
  EXPECT_EQ(settings.route.one_phase, std::nullopt);
  EXPECT_EQ(settings.route.streaming, std::nullopt);
  EXPECT_EQ(settings.route.block_bytes, 0u);
  EXPECT_EQ(settings.start_timeout, std::chrono::seconds(120));
  EXPECT_EQ(settings.log_level, "warning");
}

TEST(Config, the_documented_default_of_every_setting_is_the_default) {
  std::map<std::string, std::string> documented;
  for (const SettingInfo& row : setting_table()) documented[std::string(row.name)] = row.fallback;
  const Settings settings = read(documented);
  const Settings defaults;
  EXPECT_EQ(settings.fusion_threshold, defaults.fusion_threshold);
  EXPECT_EQ(settings.cache_capacity, defaults.cache_capacity);
  EXPECT_EQ(settings.piece_bytes, defaults.piece_bytes);
  EXPECT_EQ(settings.host_split, defaults.host_split);
  EXPECT_EQ(settings.joins_like_horovod, defaults.joins_like_horovod);
  EXPECT_EQ(settings.shared_memory, defaults.shared_memory);
  EXPECT_EQ(settings.shared_memory_directory, defaults.shared_memory_directory);
  EXPECT_EQ(settings.shared_heap_bytes, defaults.shared_heap_bytes);
  EXPECT_EQ(settings.route.one_phase, defaults.route.one_phase);
  EXPECT_EQ(settings.route.streaming, defaults.route.streaming);
  EXPECT_EQ(settings.route.block_bytes, defaults.route.block_bytes);
  EXPECT_EQ(settings.start_timeout, defaults.start_timeout);
  EXPECT_EQ(settings.log_level, defaults.log_level);
}

TEST(Config, every_setting_is_documented) {
  std::vector<std::string> names;
  for (const SettingInfo& row : setting_table()) {
    names.emplace_back(row.name);
    EXPECT_FALSE(row.range.empty()) << row.name;
    EXPECT_FALSE(row.meaning.empty()) << row.name;
  }
  EXPECT_THAT(names, ElementsAre("HORA_FUSION_THRESHOLD", "HORA_CACHE_CAPACITY", "HORA_PIECE_BYTES",
                                 "HORA_HOST_SPLIT", "HORA_JOIN_RULE", "HORA_SHARED_MEMORY",
                                 "HORA_SHARED_MEMORY_DIRECTORY", "HORA_SHARED_HEAP_BYTES", "HORA_REDUCTION",
                                 "HORA_STREAMING", "HORA_BLOCK_BYTES", "HORA_ALLREDUCE_BETWEEN_HOSTS",
                                 "HORA_PIECE_BYTES_BETWEEN_HOSTS", "HORA_DETERMINISTIC", "HORA_CUDA_LIBRARY",
                                 "HORA_NCCL_LIBRARY", "HORA_CACHE_FOLDER", "HORA_DEVICE_TIMEOUT",
                                 "HORA_NCCL_BLOCKING", "HORA_WAIT_ON_HOST", "HORA_START_TIMEOUT_SECONDS",
                                 "HORA_STALL_WARNING_SECONDS", "HORA_STALL_ABORT_SECONDS", "HORA_FAULTS",
                                 "HORA_BANNER", "HORA_LOG_LEVEL"));
}

TEST(Config, what_has_to_be_the_same_on_all_ranks_is_documented_as_such) {
  for (const SettingInfo& row : setting_table()) {
    const bool is_told = row.meaning.find("The same on all ranks.") != std::string_view::npos;
    EXPECT_EQ(is_told, static_cast<bool>(row.common)) << row.name;
  }
}

TEST(Config, values_that_ranks_compare_do_not_depend_on_how_they_were_written) {
  EXPECT_EQ(common_values(read({{"HORA_SHARED_MEMORY", "0"}, {"HORA_HOST_SPLIT", "03,2"}})),
            common_values(read({{"HORA_SHARED_MEMORY", "off"}, {"HORA_HOST_SPLIT", "3,2"}})));
}

TEST(Config, the_documented_default_of_what_ranks_compare_is_its_value) {
  std::map<std::string, std::string> documented;
  for (const SettingInfo& row : setting_table()) documented[std::string(row.name)] = row.fallback;
  for (const auto& [name, value] : common_values({})) EXPECT_EQ(value, documented.at(name)) << name;
}

TEST(Config, each_setting_reaches_its_field) {
  const Settings settings = read({{"HORA_FUSION_THRESHOLD", "1024"},
                                  {"HORA_CACHE_CAPACITY", "17"},
                                  {"HORA_PIECE_BYTES", "4096"},
                                  {"HORA_HOST_SPLIT", "3,2"},
                                  {"HORA_JOIN_RULE", "horovod"},
                                  {"HORA_SHARED_MEMORY", "no"},
                                  {"HORA_SHARED_MEMORY_DIRECTORY", "/dev/shm"},
                                  {"HORA_SHARED_HEAP_BYTES", "8192"},
                                  {"HORA_REDUCTION", "two-phase"},
                                  {"HORA_STREAMING", "true"},
                                  {"HORA_BLOCK_BYTES", "4096"},
                                  {"HORA_ALLREDUCE_BETWEEN_HOSTS", "doubling"},
                                  {"HORA_PIECE_BYTES_BETWEEN_HOSTS", "1000"},
                                  {"HORA_DETERMINISTIC", "true"},
                                  {"HORA_CUDA_LIBRARY", "/a/libcuda.so.1"},
                                  {"HORA_NCCL_LIBRARY", "/a/libnccl.so.2"},
                                  {"HORA_CACHE_FOLDER", "/a/cache"},
                                  {"HORA_DEVICE_TIMEOUT", "90"},
                                  {"HORA_NCCL_BLOCKING", "true"},
                                  {"HORA_WAIT_ON_HOST", "yes"},
                                  {"HORA_START_TIMEOUT_SECONDS", "5"},
                                  {"HORA_STALL_WARNING_SECONDS", "7"},
                                  {"HORA_STALL_ABORT_SECONDS", "11"},
                                  {"HORA_FAULTS", "in_batch:1:20:kill"},
                                  {"HORA_LOG_LEVEL", "debug"}});
  EXPECT_EQ(settings.stalls.warning, std::chrono::seconds(7));
  EXPECT_EQ(settings.stalls.abort, std::chrono::seconds(11));
  EXPECT_EQ(settings.faults, parse_faults("in_batch:1:20:kill"));
  EXPECT_EQ(settings.device.cuda_library, "/a/libcuda.so.1");
  EXPECT_EQ(settings.device.nccl_library, "/a/libnccl.so.2");
  EXPECT_EQ(settings.device.cache_folder, "/a/cache");
  EXPECT_EQ(settings.device.timeout, std::chrono::seconds(90));
  EXPECT_TRUE(settings.device.blocking);
  EXPECT_TRUE(settings.device.waits_on_host);
  EXPECT_EQ(settings.route.doubling, true);
  EXPECT_EQ(settings.route.across_bytes, 1000u);
  EXPECT_TRUE(settings.deterministic);
  EXPECT_EQ(settings.start_timeout, std::chrono::seconds(5));
  EXPECT_EQ(settings.fusion_threshold, 1024u);
  EXPECT_EQ(settings.cache_capacity, 17u);
  EXPECT_EQ(settings.piece_bytes, 4096u);
  EXPECT_THAT(settings.host_split, ElementsAre(3, 2));
  EXPECT_TRUE(settings.joins_like_horovod);
  EXPECT_FALSE(settings.shared_memory);
  EXPECT_EQ(settings.shared_memory_directory, "/dev/shm");
  EXPECT_EQ(settings.shared_heap_bytes, 8192u);
  EXPECT_EQ(settings.route.one_phase, false);
  EXPECT_EQ(settings.route.streaming, true);
  EXPECT_EQ(settings.route.block_bytes, 4096u);
  EXPECT_EQ(settings.log_level, "debug");
}

TEST(Config, flags_and_choices_are_accepted_in_all_their_forms) {
  for (const char* yes : {"1", "true", "yes", "on"})
    EXPECT_TRUE(read({{"HORA_SHARED_MEMORY", yes}}).shared_memory);
  for (const char* no : {"0", "false", "no", "off"})
    EXPECT_FALSE(read({{"HORA_SHARED_MEMORY", no}}).shared_memory);
  EXPECT_EQ(read({{"HORA_REDUCTION", "one-phase"}}).route.one_phase, true);
  EXPECT_EQ(read({{"HORA_REDUCTION", "auto"}}).route.one_phase, std::nullopt);
  EXPECT_EQ(read({{"HORA_STREAMING", "false"}}).route.streaming, false);
  EXPECT_EQ(read({{"HORA_BLOCK_BYTES", "0"}}).route.block_bytes, 0u);
}

TEST(Config, the_ends_of_each_range_are_accepted) {
  EXPECT_EQ(read({{"HORA_FUSION_THRESHOLD", "0"}}).fusion_threshold, 0u);
  EXPECT_EQ(read({{"HORA_FUSION_THRESHOLD", "1099511627776"}}).fusion_threshold, std::uint64_t{1} << 40);
  EXPECT_EQ(read({{"HORA_CACHE_CAPACITY", "0"}}).cache_capacity, 0u);
  EXPECT_EQ(read({{"HORA_CACHE_CAPACITY", "2147483648"}}).cache_capacity, std::uint64_t{1} << 31);
  EXPECT_EQ(read({{"HORA_PIECE_BYTES", "1"}}).piece_bytes, 1u);
  EXPECT_EQ(read({{"HORA_PIECE_BYTES", "1073741824"}}).piece_bytes, std::uint64_t{1} << 30);
}

TEST(Config, every_log_level_is_accepted) {
  for (const char* level : {"trace", "debug", "info", "warning", "error", "off"})
    EXPECT_EQ(read({{"HORA_LOG_LEVEL", level}}).log_level, level);
}

TEST(Config, a_variable_of_horovod_is_read_when_ours_is_not_set) {
  EXPECT_EQ(read({{"HOROVOD_FUSION_THRESHOLD", "7"}}).fusion_threshold, 7u);
  EXPECT_EQ(read({{"HOROVOD_CACHE_CAPACITY", "0"}}).cache_capacity, 0u);
  EXPECT_EQ(read({{"HOROVOD_LOG_LEVEL", "fatal"}}).log_level, "error");
  EXPECT_EQ(read({{"HOROVOD_START_TIMEOUT", "30"}}).start_timeout, std::chrono::seconds(30));
  EXPECT_EQ(read({{"HOROVOD_FUSION_THRESHOLD", "7"}, {"HORA_FUSION_THRESHOLD", "8"}}).fusion_threshold, 8u);
}

TEST(Config, a_variable_of_horovod_that_is_empty_is_not_set) {
  const Settings defaults;
  for (const SettingInfo& row : setting_table()) {
    if (row.horovod_name.empty()) continue;
    const Settings settings = read({{std::string(row.horovod_name), ""}});
    EXPECT_EQ(common_values(settings), common_values(defaults)) << row.horovod_name;
    EXPECT_EQ(settings.start_timeout, defaults.start_timeout) << row.horovod_name;
    EXPECT_EQ(settings.log_level, defaults.log_level) << row.horovod_name;
  }
}

TEST(Config, horovods_flag_against_stall_notices_is_read) {
  const auto warning = [](std::map<std::string, std::string> variables) {
    return read(variables).stalls.warning;
  };
  EXPECT_EQ(warning({{"HOROVOD_STALL_CHECK_DISABLE", "1"}, {"HOROVOD_STALL_CHECK_TIME_SECONDS", "9"}}),
            Duration(0));
  EXPECT_EQ(warning({{"HOROVOD_STALL_CHECK_DISABLE", "0"}, {"HOROVOD_STALL_CHECK_TIME_SECONDS", "9"}}),
            std::chrono::seconds(9));
  EXPECT_EQ(warning({{"HOROVOD_STALL_CHECK_DISABLE", "1"}, {"HORA_STALL_WARNING_SECONDS", "8"}}),
            std::chrono::seconds(8));
  EXPECT_EQ(warning({{"HOROVOD_STALL_CHECK_DISABLE", "nonsense"}}), std::chrono::seconds(60));
}

TEST(Config, a_bad_value_is_reported_under_the_name_that_was_set) {
  try {
    static_cast<void>(read({{"HOROVOD_FUSION_THRESHOLD", "big"}}));
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "HOROVOD_FUSION_THRESHOLD=big: expected 0 to 2^40 bytes");
  }
}

TEST(Config, a_host_split_of_one_host_is_accepted) {
  EXPECT_THAT(read({{"HORA_HOST_SPLIT", "4"}}).host_split, ElementsAre(4));
}

TEST(Config, an_empty_host_split_means_none) {
  EXPECT_TRUE(read({{"HORA_HOST_SPLIT", ""}}).host_split.empty());
}

TEST(Config, variables_that_are_not_ours_are_not_read) {
  std::vector<std::string> asked;
  static_cast<void>(read_settings([&](std::string_view name) -> std::optional<std::string> {
    asked.emplace_back(name);
    return std::nullopt;
  }));
  EXPECT_THAT(asked,
              testing::Each(testing::AnyOf(testing::StartsWith("HORA_"), testing::StartsWith("HOROVOD_"))));
}

TEST(Config, a_variable_that_is_not_set_is_told_from_an_empty_one) {
  ::setenv("HORA_TEST_VARIABLE", "", 1);
  EXPECT_EQ(process_environment("HORA_TEST_VARIABLE"), "");
  ::unsetenv("HORA_TEST_VARIABLE");
  EXPECT_EQ(process_environment("HORA_TEST_VARIABLE"), std::nullopt);
}

}  // namespace
}  // namespace hora
