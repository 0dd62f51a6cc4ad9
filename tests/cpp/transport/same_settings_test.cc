#include "transport/same_settings.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/run_ranks.h"

namespace hora::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

using Values = std::vector<NamedValue>;

constexpr std::chrono::seconds kTimeout{30};

Values values_with(const std::string& threshold) {
  return {{"HORA_FUSION_THRESHOLD", threshold}, {"HORA_HOST_SPLIT", ""}, {"version of hora", "1.2.3"}};
}

class SameSettings : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, SameSettings, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(SameSettings, that_are_alike_let_all_ranks_go_on) {
  run_transports(GetParam(),
                 [](Transport& transport) { require_same(transport, values_with("1000"), kTimeout); });
}

TEST_P(SameSettings, that_differ_on_one_rank_are_refused_on_all_with_the_same_table) {
  const int size = GetParam();
  if (size == 1) return;
  for (const int odd : {0, size - 1}) {
    run_transports(size, [&](Transport& transport) {
      try {
        require_same(transport, values_with(transport.topology().rank() == odd ? "7" : "1000"), kTimeout);
        ADD_FAILURE() << "rank " << transport.topology().rank() << " goes on";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kStartup);
        EXPECT_THAT(error.what(), HasSubstr("HORA_FUSION_THRESHOLD  7      " + std::to_string(odd)));
        EXPECT_THAT(error.what(), HasSubstr("HORA_FUSION_THRESHOLD  1000   "));
        EXPECT_THAT(error.what(), Not(HasSubstr("HORA_HOST_SPLIT")));
      }
    });
  }
}

TEST(DescribeDifferences, has_a_line_for_each_value_with_its_ranks) {
  const std::vector<Values> of_ranks{
      {{"A", "1"}, {"B", ""}}, {{"A", "1"}, {"B", "long"}}, {{"A", "1"}, {"B", ""}}};
  EXPECT_EQ(describe_differences(of_ranks),
            "\n  setting  value    ranks"
            "\n  B        not set  0,2"
            "\n  B        long     1");
}

TEST(DescribeDifferences, names_what_only_some_ranks_know) {
  const std::vector<Values> of_ranks{{{"A", "1"}}, {{"A", "1"}, {"NEW", "x"}}};
  EXPECT_THAT(describe_differences(of_ranks), EndsWith("NEW      x      1"));
}

}  // namespace
}  // namespace hora::testing
