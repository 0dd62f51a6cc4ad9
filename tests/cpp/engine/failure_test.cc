// A rank that dies in the middle: everybody hears of it, nobody waits.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>

#include "api/session.h"
#include "support/calls.h"
#include "support/disturbed_transport.h"
#include "support/run_ranks.h"

namespace hora::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kReason = "the network card is on fire";
// Long against what anything here needs, short against the deadlines of the engine.
constexpr std::chrono::seconds kSoon{4};

WrapTransport disturb(int rank, Disturbance disturbance) {
  return [rank, disturbance](std::unique_ptr<Transport> inner) -> std::unique_ptr<Transport> {
    if (inner->topology().rank() != rank) return inner;
    return std::make_unique<DisturbedTransport>(std::move(inner), disturbance);
  };
}

[[noreturn]] void die() {
  throw std::runtime_error(kReason);
}

/// What the ranks hear: the dying one its own reason, the others also its number.
void expect_failure_of(int dying, Session& session, const std::string& error) {
  EXPECT_THAT(error, HasSubstr(kReason));
  if (session.topology().rank() != dying) EXPECT_THAT(error, HasSubstr(fmt::format("rank {} failed", dying)));
}

struct DeathCase {
  int size;
  int dying;
  std::vector<int> host_split;
};

class DyingRank : public ::testing::TestWithParam<DeathCase> {};

INSTANTIATE_TEST_SUITE_P(Of, DyingRank,
                         ::testing::Values(DeathCase{2, 0, {}}, DeathCase{2, 1, {}}, DeathCase{3, 1, {}},
                                           DeathCase{7, 6, {}}, DeathCase{7, 6, {3, 2, 2}}, DeathCase{7, 3, {3, 2, 2}},
                                           DeathCase{7, 0, {3, 2, 2}}, DeathCase{8, 5, {1, 1, 1, 1, 1, 1, 1, 1}}),
                         [](const auto& info) {
                           return fmt::format("rank_{}_of_{}_on_{}_hosts", info.param.dying, info.param.size,
                                              std::max<std::size_t>(1, info.param.host_split.size()));
                         });

TEST_P(DyingRank, in_the_data_path_fails_every_pending_call_on_all_ranks) {
  const DeathCase& kase = GetParam();
  run_ranks(
      kase.size,
      [&](Session& session) {
        const TimePoint start = Clock::now();
        std::vector<std::vector<float>> tensors(5, std::vector<float>(1000, 1.0f));
        std::vector<HandlePtr> handles;
        for (std::size_t number = 0; number < tensors.size(); ++number)
          handles.push_back(session.submit(allreduce("t" + std::to_string(number), ref(tensors[number]))));
        for (std::size_t number = 0; number < tensors.size(); ++number) {
          const std::string error = error_of(session, handles[number]);
          EXPECT_THAT(error, StartsWith(fmt::format("allreduce 't{}': ", number)));
          expect_failure_of(kase.dying, session, error);
          EXPECT_EQ(handles[number]->error()->kind(), ErrorKind::kSessionFailed);
        }
        EXPECT_LT(Clock::now() - start, kSoon);
      },
      {.host_split = kase.host_split, .settings = {.fusion_threshold = 0}, .wrap = disturb(kase.dying, {.on_send = die})});
}

TEST_P(DyingRank, in_the_control_path_fails_every_pending_call_on_all_ranks) {
  const DeathCase& kase = GetParam();
  std::atomic<bool> armed{false};
  const auto die_if_armed = [&armed] {
    if (armed) die();
  };
  run_ranks(
      kase.size,
      [&](Session& session) {
        run(session, barrier("all are here"));
        std::vector<float> values{1};
        if (session.topology().rank() == kase.dying) armed = true;
        expect_failure_of(kase.dying, session, error_of(session, allreduce("x", ref(values))));
      },
      {.host_split = kase.host_split, .wrap = disturb(kase.dying, {.on_receive = die_if_armed})});
}

TEST_P(DyingRank, makes_the_next_call_throw_the_same_reason) {
  const DeathCase& kase = GetParam();
  run_ranks(
      kase.size,
      [&](Session& session) {
        std::vector<float> values(1000, 1.0f);
        EXPECT_NE(error_of(session, allreduce("x", ref(values))), "");
        const Refusal refusal = refusal_of(session, allreduce("y", ref(values)));
        EXPECT_EQ(refusal.kind, ErrorKind::kSessionFailed);
        expect_failure_of(kase.dying, session, refusal.text);
      },
      {.host_split = kase.host_split, .wrap = disturb(kase.dying, {.on_send = die})});
}

TEST(DyingRank, does_not_touch_what_was_complete_before) {
  std::atomic<bool> armed{false};
  const auto die_if_armed = [&armed] {
    if (armed) die();
  };
  run_ranks(
      3,
      [&](Session& session) {
        std::vector<std::int32_t> values{1};
        const HandlePtr first = run(session, allreduce("first", ref(values)));
        run(session, barrier());
        if (session.topology().rank() == 1) armed = true;
        std::vector<float> more(1000);
        while (error_of(session, allreduce("x", ref(more))).empty()) continue;
        EXPECT_EQ(first->error(), nullptr);
        EXPECT_EQ(values[0], 3);
      },
      {.wrap = disturb(1, {.on_send = die_if_armed})});
}

TEST(DyingRank, lets_the_others_leave_at_once) {
  run_ranks(
      3,
      [](Session& session) {
        std::vector<float> values(1000, 1.0f);
        EXPECT_NE(error_of(session, allreduce("x", ref(values))), "");
        const TimePoint start = Clock::now();
        session.leave();
        EXPECT_LT(Clock::now() - start, kSoon);
      },
      {.wrap = disturb(2, {.on_send = die})});
}

TEST(DyingRank, in_the_last_batch_before_a_departure_does_not_hold_up_the_leaving_rank) {
  // Rank 0, the root of the broadcast, is through as soon as it has sent, and leaves; rank 1 dies on its way
  // to rank 3.
  run_ranks(
      4,
      [](Session& session) {
        std::vector<float> values(1000, 1.0f);
        const HandlePtr handle = session.submit(broadcast("x", ref(values), 0));
        if (session.topology().rank() == 0) EXPECT_EQ(error_of(session, handle), "");
        const TimePoint start = Clock::now();
        session.leave();
        EXPECT_LT(Clock::now() - start, kSoon);
      },
      {.wrap = disturb(1, {.on_send = die})});
}

}  // namespace
}  // namespace hora::testing
