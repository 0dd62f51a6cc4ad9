#include "engine/rest.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using namespace std::chrono_literals;

RestState polled(Duration quiet) {
  return {.quiet = quiet,
          .caller_waits = false,
          .answer_due = false,
          .since_call = 1h,
          .notices_arrivals = false};
}

TEST(Rest, pauses_grow_to_two_milliseconds_while_nothing_is_due) {
  Duration last = 0ns;
  for (const Duration quiet : {0us, 100us, 1000us, 10'000us, 1'000'000us}) {
    const Duration pause = choose_rest(polled(quiet)).time;
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
  EXPECT_EQ(choose_rest(state).time, 0ns);
}

TEST(Rest, does_not_spin_for_ever_for_a_caller_whose_answer_does_not_come) {
  RestState state = polled(1s);
  state.caller_waits = true;
  EXPECT_GT(choose_rest(state).time, 0ns);
  EXPECT_LE(choose_rest(state).time, 1ms);
}

TEST(Rest, looks_more_often_while_an_answer_is_due) {
  RestState due = polled(1s);
  due.answer_due = true;
  EXPECT_LT(choose_rest(due).time, choose_rest(polled(1s)).time);
  EXPECT_GT(choose_rest(due).time, 0ns);
}

RestState notified(Duration quiet) {
  RestState state = polled(quiet);
  state.notices_arrivals = true;
  return state;
}

TEST(Rest, sleeps_until_something_happens_where_arrivals_wake_the_engine) {
  RestState state = notified(0ns);
  EXPECT_TRUE(choose_rest(state).ends_early);
  EXPECT_GE(choose_rest(state).time, 1s);
  state.caller_waits = true;
  EXPECT_TRUE(choose_rest(state).ends_early);
}

TEST(Rest, sleeps_begin_short_where_a_transport_may_hold_something_back) {
  RestState state = notified(0ns);
  state.moves_only_when_called = true;
  Duration last = 0ns;
  for (const Duration quiet : {0ms, 3ms, 100ms, 1000ms, 60'000ms}) {
    state.quiet = quiet;
    EXPECT_TRUE(choose_rest(state).ends_early);
    EXPECT_GT(choose_rest(state).time, last);
    EXPECT_LE(choose_rest(state).time, std::max<Duration>(quiet, 1ms));
    last = choose_rest(state).time;
  }
}

TEST(Rest, looks_by_itself_while_this_rank_makes_calls) {
  RestState state = notified(0ms);
  state.since_call = 5ms;
  EXPECT_FALSE(choose_rest(state).ends_early);
  EXPECT_LE(choose_rest(state).time, 1ms);
  EXPECT_GT(choose_rest(state).time, 0ns);
}

TEST(Rest, does_not_keep_looking_for_an_answer_that_does_not_come) {
  RestState state = notified(1s);
  state.answer_due = true;
  state.since_call = 1s;
  EXPECT_TRUE(choose_rest(state).ends_early);
}

TEST(Rest, is_woken_at_once_for_a_caller_who_waits) {
  RestState state = notified(5ms);
  state.since_call = 5ms;
  state.caller_waits = true;
  EXPECT_TRUE(choose_rest(state).ends_early);
}

}  // namespace
}  // namespace hora
