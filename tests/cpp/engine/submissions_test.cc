#include "engine/submissions.h"

#include <gmock/gmock.h>

#include <thread>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Submission named(const std::string& name) {
  Submission submission;
  submission.request.key.name = name;
  return submission;
}

std::vector<std::string> taken_from(Submissions& submissions) {
  std::vector<Submission> taken;
  static_cast<void>(submissions.take(taken));
  std::vector<std::string> keys;
  for (const Submission& submission : taken) keys.push_back(submission.request.key.to_string());
  return keys;
}

TEST(Submissions, come_out_in_the_order_they_went_in) {
  Submissions submissions;
  submissions.push(named("b"));
  submissions.push(named("a"));
  EXPECT_THAT(taken_from(submissions), ElementsAre("'b'", "'a'"));
  EXPECT_THAT(taken_from(submissions), ElementsAre());
}

TEST(Submissions, unnamed_calls_and_refusals_are_numbered_together) {
  Submissions submissions;
  submissions.push(named(""));
  submissions.push_refusal(named(""));
  submissions.push(named("x"));
  submissions.push(named(""));
  EXPECT_THAT(taken_from(submissions),
              ElementsAre("unnamed call 1", "unnamed call 2", "'x'", "unnamed call 3"));
}

TEST(Submissions, a_name_in_use_is_refused_until_it_is_released) {
  Submissions submissions;
  submissions.push(named("x"));
  static_cast<void>(taken_from(submissions));
  try {
    submissions.push(named("x"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("'x'"));
  }
  submissions.release({"x"});
  submissions.push(named("x"));
  EXPECT_THAT(taken_from(submissions), ElementsAre("'x'"));
}

TEST(Submissions, a_refused_duplicate_leaves_no_trace) {
  Submissions submissions;
  submissions.push(named("x"));
  EXPECT_THROW(submissions.push(named("x")), Error);
  EXPECT_THAT(taken_from(submissions), ElementsAre("'x'"));
}

TEST(Submissions, a_refusal_does_not_occupy_its_name) {
  Submissions submissions;
  submissions.push_refusal(named("x"));
  submissions.push(named("x"));
  EXPECT_THAT(taken_from(submissions), ElementsAre("'x'", "'x'"));
}

TEST(Submissions, releasing_an_unnamed_call_or_an_unknown_name_does_nothing) {
  Submissions submissions;
  submissions.release({"", 1});
  submissions.release({"never used"});
  submissions.push(named("x"));
  EXPECT_THROW(submissions.push(named("x")), Error);
}

TEST(Submissions, numbers_and_names_belong_to_a_process_set) {
  Submissions submissions;
  const auto in_set = [](const std::string& name, std::int32_t process_set) {
    Submission submission = named(name);
    submission.request.key.process_set = process_set;
    return submission;
  };
  for (const std::int32_t process_set : {0, 1, 2}) {
    submissions.push(in_set("", process_set));
    submissions.push(in_set("x", process_set));
    EXPECT_THROW(submissions.push(in_set("x", process_set)), Error);
  }
  EXPECT_THROW(submissions.push(in_set("x", 2)), Error);
  submissions.release({"x", 0, 2});
  submissions.push(in_set("x", 2));
  EXPECT_THROW(submissions.push(in_set("x", 1)), Error);
  EXPECT_THAT(taken_from(submissions),
              ElementsAre("unnamed call 1", "'x'", "unnamed call 1", "'x'", "unnamed call 1", "'x'", "'x'"));
}

TEST(Submissions, numbering_begins_anew_in_the_set_where_it_is_restarted) {
  Submissions submissions;
  Submission elsewhere = named("");
  elsewhere.request.key.process_set = 3;
  submissions.push(named(""));
  submissions.push(elsewhere);
  submissions.restart_numbering(kGlobalSet);
  submissions.push(named(""));
  submissions.push(elsewhere);
  EXPECT_THAT(taken_from(submissions),
              ElementsAre("unnamed call 1", "unnamed call 1", "unnamed call 1", "unnamed call 2"));
}

TEST(Submissions, a_join_is_in_use_until_it_is_released_and_takes_no_number) {
  Submissions submissions;
  Submission join;
  join.request.key = Key::join();
  submissions.push(join);
  EXPECT_THROW(submissions.push(join), Error);
  submissions.push(named(""));
  submissions.release(Key::join());
  submissions.push(join);
  EXPECT_THAT(taken_from(submissions), ElementsAre("(all ranks)", "unnamed call 1", "(all ranks)"));
}

TEST(Submissions, after_closing_nothing_gets_in_and_the_first_reason_is_given) {
  Submissions submissions;
  submissions.push(named("before"));
  submissions.close(Error(ErrorKind::kSessionFailed, "rank 3 left"));
  submissions.close(Error(ErrorKind::kSessionFailed, "something else"));
  try {
    submissions.push(named("after"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSessionFailed);
    EXPECT_STREQ(error.what(), "rank 3 left");
  }
  submissions.push_refusal(named("refused"));
  EXPECT_THAT(taken_from(submissions), ElementsAre("'before'"));
}

TEST(Submissions, what_is_held_comes_out_together_and_not_before) {
  Submissions submissions;
  submissions.hold();
  submissions.push(named("a"));
  submissions.hold();
  submissions.push_refusal(named("b"));
  submissions.let_go();
  EXPECT_FALSE(submissions.has_queued());
  EXPECT_THAT(taken_from(submissions), ElementsAre());
  submissions.let_go();
  EXPECT_TRUE(submissions.has_queued());
  EXPECT_THAT(taken_from(submissions), ElementsAre("'a'", "'b'"));
}

TEST(Submissions, closing_gives_out_what_is_held) {
  Submissions submissions;
  submissions.hold();
  submissions.push(named("a"));
  submissions.close(Error(ErrorKind::kSessionFailed, "rank 3 left"));
  EXPECT_THAT(taken_from(submissions), ElementsAre("'a'"));
  submissions.let_go();
}

TEST(Submissions, every_push_of_many_threads_is_taken_exactly_once) {
  Submissions submissions;
  constexpr int kEach = 2000;
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&] {
      for (int push = 0; push < kEach; ++push) submissions.push(named(""));
    });
  }
  std::vector<std::string> all;
  while (all.size() < 3 * kEach) {
    const std::vector<std::string> some = taken_from(submissions);
    all.insert(all.end(), some.begin(), some.end());
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t number = 0; number < all.size(); ++number)
    ASSERT_EQ(all[number], "unnamed call " + std::to_string(number + 1));
}

}  // namespace
}  // namespace hora
