#include "engine/rest.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using namespace std::chrono_literals;

RestState polled(Duration quiet) {
  return {.quiet = quiet, .caller_waits = false, .answer_due = false, .notices_arrivals = false};
}

TEST(Rest, pauses_grow_to_two_milliseconds_while_nothing_is_due) {
  Duration last = 0ns;
  for (const Duration quiet : {0us, 100us, 1000us, 10'000us, 1'000'000us}) {
    const Duration pause = choose_rest(polled(quiet));
    EXPECT_GT(pause, 0ns);
    EXPECT_GE(pause, last);
    EXPECT_LE(pause, 2ms);
    last = pause;
  }
  EXPECT_EQ(last, 2ms);
}

TEST(Rest, looks_without_pause_while_a_caller_waits_for_an_answer_that_comes_soon) {
  RestState state = polled(100us);
  state.caller_waits = true;
  EXPECT_EQ(choose_rest(state), 0ns);
}

TEST(Rest, does_not_spin_for_ever_for_a_caller_whose_answer_does_not_come) {
  RestState state = polled(1s);
  state.caller_waits = true;
  EXPECT_GT(choose_rest(state), 0ns);
  EXPECT_LE(choose_rest(state), 1ms);
}

TEST(Rest, looks_more_often_while_an_answer_is_due) {
  RestState due = polled(1s);
  due.answer_due = true;
  EXPECT_LT(choose_rest(due), choose_rest(polled(1s)));
  EXPECT_GT(choose_rest(due), 0ns);
}

TEST(Rest, sleeps_long_where_arrivals_wake_the_engine) {
  RestState state = polled(0ns);
  state.notices_arrivals = true;
  EXPECT_GE(choose_rest(state), 50ms);
  state.caller_waits = true;
  EXPECT_GE(choose_rest(state), 50ms);
}

}  // namespace
}  // namespace hora
