// Which names may be used when, and how calls that a rank refuses keep the ranks in step.

#include <gmock/gmock.h>

#include "api/session.h"
#include "support/calls.h"
#include "support/run_ranks.h"
#include "support/tensor.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;

TEST(SessionNames, a_name_in_flight_is_refused_at_once_and_the_first_call_completes) {
  run_ranks(2, [](Session& session) {
    std::vector<float> first(4, 1.0f);
    std::vector<float> second(5, 1.0f);
    const HandlePtr handle = session.submit(allreduce("x", ref(first)));
    const Refusal refusal = refusal_of(session, allreduce("x", ref(second)));
    EXPECT_EQ(refusal.kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(refusal.text, HasSubstr("allreduce 'x'"));
    wait(session, handle);
    EXPECT_EQ(first, std::vector<float>(4, 2.0f));
    EXPECT_EQ(error_of(session, allreduce("x", ref(second))), "");
  });
}

TEST(SessionNames, a_completed_call_occupies_its_name_until_it_is_released) {
  run_ranks(2, [](Session& session) {
    std::vector<float> values{1};
    const HandlePtr handle = session.submit(allreduce("x", ref(values)));
    run(session, barrier("after x"));
    ASSERT_TRUE(handle->done());
    EXPECT_EQ(refusal_of(session, allreduce("x", ref(values))).kind, ErrorKind::kInvalidArgument);
    session.release(*handle);
    EXPECT_EQ(error_of(session, allreduce("x", ref(values))), "");
  });
}

TEST(SessionNames, one_name_is_one_tensor_whatever_the_op) {
  run_ranks(2, [](Session& session) {
    std::vector<float> values{1};
    const HandlePtr handle = session.submit(allreduce("x", ref(values)));
    EXPECT_EQ(refusal_of(session, barrier("x")).kind, ErrorKind::kInvalidArgument);
    wait(session, handle);
  });
}

TEST(SessionNames, a_failed_call_releases_its_name_like_any_other) {
  run_ranks(2, [](Session& session) {
    std::vector<float> values(session.topology().rank() == 0 ? 1 : 2);
    EXPECT_NE(error_of(session, allreduce("x", ref(values))), "");
    std::vector<float> good{1};
    EXPECT_EQ(error_of(session, allreduce("x", ref(good))), "");
  });
}

TEST(SessionNames, a_refused_call_is_an_error_on_the_others_that_names_rank_and_reason) {
  run_ranks(3, [](Session& session) {
    std::vector<float> values{1};
    if (session.topology().rank() == 1) {
      session.refuse(OpKind::kAllreduce, "x", kGlobalSet, "dtype complex64 is not supported");
    } else {
      EXPECT_EQ(error_of(session, allreduce("x", ref(values))),
                "allreduce 'x': rank 1 refused the call (dtype complex64 is not supported)");
      EXPECT_EQ(values[0], 1.0f);
    }
    EXPECT_EQ(error_of(session, allreduce("y", ref(values))), "");
  });
}

TEST(SessionNames, a_refused_call_may_be_corrected_at_once_under_the_same_name) {
  for (int round = 0; round < 20; ++round) {
    run_ranks(3, [](Session& session) {
      std::vector<float> values{1};
      if (session.topology().rank() == 1) {
        session.refuse(OpKind::kAllreduce, "x", kGlobalSet, "no");
      } else {
        EXPECT_THAT(error_of(session, allreduce("x", ref(values))),
                    HasSubstr("rank 1 refused the call (no)"));
      }
      EXPECT_EQ(error_of(session, allreduce("x", ref(values))), "");
      EXPECT_EQ(values[0], 3.0f);
    });
  }
}

TEST(SessionNames, several_refusals_of_one_name_meet_several_calls_of_the_others_in_order) {
  run_ranks(3, [](Session& session) {
    std::vector<float> values{1};
    for (int attempt = 1; attempt <= 3; ++attempt) {
      const std::string reason = "reason " + std::to_string(attempt);
      if (session.topology().rank() == 2) {
        session.refuse(OpKind::kAllreduce, "x", kGlobalSet, reason);
      } else {
        EXPECT_THAT(error_of(session, allreduce("x", ref(values))), HasSubstr(reason));
      }
    }
    EXPECT_EQ(error_of(session, allreduce("x", ref(values))), "");
    EXPECT_EQ(values[0], 3.0f);
  });
}

TEST(SessionNames, arguments_that_a_rank_finds_wrong_are_refused_for_all) {
  run_ranks(2, [](Session& session) {
    std::vector<float> values{1};
    if (session.topology().rank() == 0) {
      EXPECT_EQ(refusal_of(session, broadcast("x", ref(values), 9)).kind, ErrorKind::kInvalidArgument);
    } else {
      EXPECT_THAT(error_of(session, broadcast("x", ref(values), 0)),
                  HasSubstr("rank 0 refused the call (root_rank 9 is not one of the ranks 0,1)"));
    }
    EXPECT_EQ(error_of(session, broadcast("x", ref(values), 0)), "");
  });
}

TEST(SessionNames, a_refused_unnamed_call_takes_its_place_in_the_numbering) {
  run_ranks(3, [](Session& session) {
    std::vector<float> first{1};
    std::vector<float> second{2};
    std::vector<float> third{3};
    const HandlePtr before = session.submit(allreduce("", ref(first)));
    HandlePtr refused;
    if (session.topology().rank() == 0) {
      session.refuse(OpKind::kAllreduce, "", kGlobalSet, "no");
    } else {
      refused = session.submit(allreduce("", ref(second)));
    }
    const HandlePtr after = session.submit(allreduce("", ref(third)));
    EXPECT_EQ(error_of(session, before), "");
    EXPECT_EQ(error_of(session, after), "");
    EXPECT_EQ(first[0], 3.0f);
    EXPECT_EQ(third[0], 9.0f);
    if (refused) {
      EXPECT_EQ(error_of(session, refused), "allreduce unnamed call 2: rank 0 refused the call (no)");
      EXPECT_EQ(second[0], 2.0f);
    }
  });
}

TEST(SessionNames, a_duplicate_is_not_announced_so_the_others_do_not_hear_of_it) {
  run_ranks(2, [](Session& session) {
    std::vector<float> values{1};
    const HandlePtr handle = session.submit(allreduce("x", ref(values)));
    if (session.topology().rank() == 0) {
      EXPECT_EQ(refusal_of(session, allreduce("x", ref(values))).kind, ErrorKind::kInvalidArgument);
    }
    wait(session, handle);
    std::vector<float> again{1};
    EXPECT_EQ(error_of(session, allreduce("x", ref(again))), "");
    EXPECT_EQ(again[0], 2.0f);
  });
}

}  // namespace
}  // namespace hora::testing
