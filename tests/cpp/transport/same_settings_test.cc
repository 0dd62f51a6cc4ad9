#include "transport/same_settings.h"

#include <gmock/gmock.h>

#include <limits>

#include "base/error.h"
#include "support/run_ranks.h"
#include "transport/memory.h"

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

/// Rank 1 tells numbers that no digest of its is, then its values.
TEST(RequireSame, refuses_a_rank_that_tells_the_lowest_number_that_there_is) {
  const auto fabric = make_memory_fabric(2);
  MemoryTransport own(fabric, Topology(0, {0, 0}));
  MemoryTransport other(fabric, Topology(1, {0, 0}));
  const auto tell = [&](std::span<const std::byte> bytes) {
    static_cast<void>(other.send(0, Transport::kStartTag, bytes));
  };
  const std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  for (int number = 0; number < 2; ++number) tell(std::as_bytes(std::span(&lowest, 1)));
  const Bytes values = encode_values(values_with("7"));
  const std::uint64_t length = values.size();
  tell(std::as_bytes(std::span(&length, 1)));
  tell(values);
  EXPECT_THROW(require_same(own, values_with("1000"), kTimeout), Error);
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
