#include "base/faults.h"

#include <gmock/gmock.h>

#include <ostream>
#include <string>

#include "base/exception.h"

namespace hora {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Faults, are_read_with_point_rank_hit_and_action) {
  const std::vector<Fault> faults =
      parse_faults("in_batch:1:20:kill,before_message:2:5:delay=0.25,in_allocation:0:1:fail");
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0], (Fault{FaultPoint::kInBatch, 1, 20, FaultAction::kKill, 0s, "in_batch:1:20:kill"}));
  EXPECT_EQ(faults[1].point, FaultPoint::kBeforeMessage);
  EXPECT_EQ(faults[1].action, FaultAction::kDelay);
  EXPECT_EQ(faults[1].delay, 250ms);
  EXPECT_EQ(faults[2].action, FaultAction::kFail);
}

TEST(Faults, are_shown_as_they_were_written) {
  for (const char* text : {"in_departure:3:1:stop", "before_message:0:7:drop,before_message:0:8:corrupt",
                           "after_agreement:1:2:delay=3", "before_completion:1:2:kill"})
    EXPECT_EQ(to_string(parse_faults(text)), text);
  EXPECT_EQ(to_string(std::vector<Fault>()), "");
}

struct BadFaults {
  std::string text;
  std::string why;
};

void PrintTo(const BadFaults& bad, std::ostream* out) {
  *out << bad.text;
}

class RefusedFaults : public testing::TestWithParam<BadFaults> {};

TEST_P(RefusedFaults, say_what_is_wrong) {
  try {
    static_cast<void>(parse_faults(GetParam().text));
    FAIL() << GetParam().text << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), StartsWith("HORA_FAULTS: '"));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().why));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedFaults,
    testing::Values(
        BadFaults{"", "expected POINT:RANK:HIT:ACTION"},
        BadFaults{"in_batch:1:2", "expected POINT:RANK:HIT:ACTION"},
        BadFaults{"in_batch:1:2:kill:3", "expected POINT:RANK:HIT:ACTION"},
        BadFaults{"in_batch:1:2:kill,", "expected POINT:RANK:HIT:ACTION"},
        BadFaults{"in_reduce:1:2:kill", "'in_reduce' is no point; expected one of after_agreement"},
        BadFaults{"in_batch:1:2:die", "'die' is no action; expected one of kill"},
        BadFaults{"in_batch:-1:2:kill", "'-1' is no rank"}, BadFaults{"in_batch::2:kill", "'' is no rank"},
        BadFaults{"in_batch:99999999999:2:kill", "is no rank"},
        BadFaults{"in_batch:1:0:kill", "'0' is no number of a hit"},
        BadFaults{"in_batch:1:two:kill", "'two' is no number of a hit"},
        BadFaults{"in_batch:1:2:delay", "delay=SECONDS"}, BadFaults{"in_batch:1:2:kill=1", "delay=SECONDS"},
        BadFaults{"in_batch:1:2:delay=", "'' is no delay"},
        BadFaults{"in_batch:1:2:delay=-1", "'-1' is no delay"},
        BadFaults{"in_batch:1:2:delay=1s", "'1s' is no delay"},
        BadFaults{"in_batch:1:2:delay=nan", "'nan' is no delay"},
        BadFaults{"in_batch:1:2:drop", "for messages: before_message"},
        BadFaults{"in_allocation:1:2:corrupt", "for messages: before_message"},
        BadFaults{"before_message:1:2:fail", "for allocations: in_allocation"},
        BadFaults{"in_batch:0:1:kill,in_batch:1:2:drop", "'in_batch:1:2:drop'"}));

TEST(Faults, of_a_rank_that_the_job_has_not_are_refused_on_all_ranks) {
  const std::vector<Fault> faults = parse_faults("in_batch:3:1:kill");
  for (int rank = 0; rank < 3; ++rank) EXPECT_THROW(Faults(faults, rank, 3), Error);
  EXPECT_NO_THROW(Faults(faults, 0, 4));
}

TEST(Faults, come_at_their_hit_of_their_point_on_their_rank_only) {
  const std::vector<Fault> all = parse_faults("before_message:1:2:drop,in_allocation:1:1:fail");
  Faults faults(all, 1, 2);
  EXPECT_EQ(faults.reach(FaultPoint::kBeforeMessage), std::nullopt);
  EXPECT_EQ(faults.reach(FaultPoint::kInAllocation), FaultAction::kFail);
  EXPECT_EQ(faults.reach(FaultPoint::kBeforeMessage), FaultAction::kDrop);
  EXPECT_EQ(faults.reach(FaultPoint::kBeforeMessage), std::nullopt);
  Faults of_another(all, 0, 2);
  for (int hit = 0; hit < 3; ++hit) EXPECT_EQ(of_another.reach(FaultPoint::kBeforeMessage), std::nullopt);
}

TEST(Faults, a_delay_lasts_as_long_as_it_says) {
  Faults faults(parse_faults("in_batch:0:1:delay=0.05"), 0, 1);
  const TimePoint start = Clock::now();
  EXPECT_EQ(faults.reach(FaultPoint::kInBatch), std::nullopt);
  EXPECT_GE(Clock::now() - start, 50ms);
}

TEST(FaultsDeathTest, kill_ends_the_process_at_once) {
  EXPECT_EXIT(
      {
        Faults faults(parse_faults("in_batch:0:1:kill"), 0, 1);
        faults.reach(FaultPoint::kInBatch);
      },
      testing::KilledBySignal(SIGKILL), "HORA_FAULTS: in_batch:0:1:kill");
}

}  // namespace
}  // namespace hora
