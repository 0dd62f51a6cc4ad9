#include "base/horovod_variables.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

HorovodVariables find(const std::map<std::string, std::string>& variables) {
  return find_horovod_variables([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(HorovodVariables, none_are_found_in_an_environment_without_them) {
  const HorovodVariables found = find({{"HORA_FUSION_THRESHOLD", "1"}, {"PATH", "/bin"}});
  EXPECT_THAT(found.used, IsEmpty());
  EXPECT_THAT(found.without_meaning, IsEmpty());
  EXPECT_EQ(found.text(), "");
}

TEST(HorovodVariables, one_line_tells_which_are_used_and_which_have_no_meaning) {
  const HorovodVariables found = find(
      {{"HOROVOD_FUSION_THRESHOLD", "1"}, {"HOROVOD_CYCLE_TIME", "2"}, {"HOROVOD_TORUS_ALLREDUCE", "1"}});
  EXPECT_EQ(
      found.text(),
      "variables of Horovod are read: HOROVOD_FUSION_THRESHOLD as HORA_FUSION_THRESHOLD; without meaning "
      "here: HOROVOD_CYCLE_TIME, HOROVOD_TORUS_ALLREDUCE");
}

TEST(HorovodVariables, one_line_tells_those_without_meaning_alone) {
  EXPECT_EQ(find({{"HOROVOD_CYCLE_TIME", ""}}).text(),
            "variables of Horovod without meaning here: HOROVOD_CYCLE_TIME");
}

TEST(HorovodVariables, one_that_is_empty_is_not_told_as_used) {
  EXPECT_THAT(find({{"HOROVOD_START_TIMEOUT", ""}}).used, IsEmpty());
}

TEST(HorovodVariables, one_that_is_overridden_is_told) {
  const HorovodVariables found = find({{"HOROVOD_LOG_LEVEL", "info"}, {"HORA_LOG_LEVEL", "debug"}});
  EXPECT_THAT(found.used, IsEmpty());
  EXPECT_THAT(found.without_meaning, ElementsAre("HOROVOD_LOG_LEVEL (HORA_LOG_LEVEL is set)"));
}

TEST(HorovodVariables, a_flag_that_stands_for_a_value_is_told) {
  EXPECT_THAT(find({{"HOROVOD_STALL_CHECK_DISABLE", "1"}}).used,
              ElementsAre("HOROVOD_STALL_CHECK_DISABLE as HORA_STALL_WARNING_SECONDS"));
}

}  // namespace
}  // namespace hora
