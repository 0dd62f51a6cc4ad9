// A rank that dies in the middle: everybody hears of it, nobody waits.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>

#include "api/session.h"
#include "negotiation/message.h"
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
  if (session.topology().rank() != dying) {
    EXPECT_THAT(error, HasSubstr(fmt::format("rank {} failed", dying)));
  }
}

struct DeathCase {
  int size;
  int dying;
  std::vector<int> host_split;
};

std::string name_of(const DeathCase& kase) {
  return fmt::format("rank_{}_of_{}_on_{}_hosts", kase.dying, kase.size,
                     std::max<std::size_t>(1, kase.host_split.size()));
}

void PrintTo(const DeathCase& kase, std::ostream* out) {
  *out << name_of(kase);
}

class DyingRank : public ::testing::TestWithParam<DeathCase> {
 protected:
  /// Runs `body` on all ranks of the case; one has a disturbed transport.
  void run_disturbed(const std::function<void(Session&)>& body, const Disturbance& disturbance) {
    run_ranks(GetParam().size, body,
              {.host_split = GetParam().host_split,
               .settings = {.fusion_threshold = 0},
               .wrap = disturb(GetParam().dying, disturbance)});
  }
};

INSTANTIATE_TEST_SUITE_P(Of, DyingRank,
                         ::testing::Values(DeathCase{2, 0, {}}, DeathCase{2, 1, {}}, DeathCase{3, 1, {}},
                                           DeathCase{7, 6, {}}, DeathCase{7, 6, {3, 2, 2}},
                                           DeathCase{7, 3, {3, 2, 2}}, DeathCase{7, 0, {3, 2, 2}},
                                           DeathCase{8, 5, {1, 1, 1, 1, 1, 1, 1, 1}}),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(DyingRank, in_the_data_path_fails_every_pending_call_on_all_ranks) {
  std::atomic<int> waiting{0};
  const auto die_when_all_wait = [&] {
    while (waiting < GetParam().size) std::this_thread::yield();
    die();
  };
  run_disturbed(
      [&](Session& session) {
        std::vector<std::vector<float>> tensors(5, std::vector<float>(1000, 1.0f));
        std::vector<HandlePtr> handles;
        for (std::size_t number = 0; number < tensors.size(); ++number)
          handles.push_back(session.submit(allreduce("t" + std::to_string(number), ref(tensors[number]))));
        ++waiting;
        const TimePoint start = Clock::now();
        for (std::size_t number = 0; number < tensors.size(); ++number) {
          const std::string error = error_of(session, handles[number]);
          EXPECT_THAT(error, StartsWith(fmt::format("allreduce 't{}': ", number)));
          expect_failure_of(GetParam().dying, session, error);
          EXPECT_EQ(handles[number]->error()->kind(), ErrorKind::kSessionFailed);
        }
        EXPECT_LT(Clock::now() - start, kSoon);
      },
      {.on_send = die_when_all_wait});
}

TEST_P(DyingRank, in_the_control_path_fails_every_pending_call_on_all_ranks) {
  std::atomic<int> waiting{0};
  const auto die_when_all_wait = [&] {
    if (waiting == GetParam().size) die();
  };
  run_disturbed(
      [&](Session& session) {
        std::vector<float> values{1};
        // One rank calls something else, so that all wait.
        const bool is_odd = session.topology().rank() == 0;
        const HandlePtr handle = session.submit(allreduce(is_odd ? "y" : "x", ref(values)));
        ++waiting;
        expect_failure_of(GetParam().dying, session, error_of(session, handle));
      },
      {.on_receive = die_when_all_wait});
}

TEST_P(DyingRank, makes_the_next_call_throw_the_same_reason) {
  run_disturbed(
      [](Session& session) {
        std::vector<float> values(1000, 1.0f);
        EXPECT_NE(error_of(session, allreduce("x", ref(values))), "");
        const Refusal refusal = refusal_of(session, allreduce("y", ref(values)));
        EXPECT_EQ(refusal.kind, ErrorKind::kSessionFailed);
        expect_failure_of(GetParam().dying, session, refusal.text);
      },
      {.on_send = die});
}

TEST(DyingRankAmongOthers, does_not_touch_what_was_complete_before) {
  std::atomic<int> complete{0};
  const auto die_when_all_are_through = [&] {
    if (complete == 3) die();
  };
  run_ranks(3,
            [&](Session& session) {
              std::vector<std::int32_t> values{1};
              const HandlePtr first = run(session, allreduce("first", ref(values)));
              ++complete;
              std::vector<float> more(1000);
              while (error_of(session, allreduce("x", ref(more))).empty()) continue;
              EXPECT_EQ(first->error(), nullptr);
              EXPECT_EQ(values[0], 3);
            },
            {.wrap = disturb(1, {.on_send = die_when_all_are_through})});
}

TEST(DyingRankAmongOthers, lets_the_others_leave_at_once) {
  run_ranks(3,
            [](Session& session) {
              std::vector<float> values(1000, 1.0f);
              EXPECT_NE(error_of(session, allreduce("x", ref(values))), "");
              const TimePoint start = Clock::now();
              session.leave();
              EXPECT_LT(Clock::now() - start, kSoon);
            },
            {.wrap = disturb(2, {.on_send = die})});
}

TEST(DyingRankAmongOthers, in_the_last_batch_before_a_departure_does_not_hold_up_the_leaving_rank) {
  // Rank 0, the root of the broadcast, is through as soon as it has sent, and leaves. Once it has told all
  // others so, rank 1 dies on its way to rank 3.
  std::atomic<int> plans{0};
  const Disturbance count_plans{
      .on_post = [&](int, const Bytes& message) { plans += kind_of(message) == MessageKind::kPlan; }};
  const Disturbance die_after_departure{.on_send = [&] {
    while (plans < 2 * 3) std::this_thread::yield();
    die();
  }};
  const auto wrap = [&](std::unique_ptr<Transport> inner) -> std::unique_ptr<Transport> {
    const int rank = inner->topology().rank();
    if (rank > 1) return inner;
    return std::make_unique<DisturbedTransport>(std::move(inner),
                                                rank == 0 ? count_plans : die_after_departure);
  };
  run_ranks(4,
            [](Session& session) {
              std::vector<float> values(1000, 1.0f);
              const HandlePtr handle = session.submit(broadcast("x", ref(values), 0));
              const std::string error = error_of(session, handle);
              if (session.topology().rank() != 0) return;
              EXPECT_EQ(error, "");
              const TimePoint start = Clock::now();
              session.leave();
              EXPECT_LT(Clock::now() - start, kSoon);
            },
            {.wrap = wrap});
}

struct Damage {
  std::string name;
  std::function<void(Bytes& message)> apply;
};

class DamagedMessage : public ::testing::TestWithParam<std::tuple<DeathCase, Damage>> {};

const Damage kDamages[] = {
    {"cut_short", [](Bytes& message) { message.pop_back(); }},
    {"too_long", [](Bytes& message) { message.push_back(std::byte{1}); }},
    {"empty", [](Bytes& message) { message.clear(); }},
    {"of_no_kind", [](Bytes& message) { message.front() = std::byte{0xff}; }},
};

std::string name_of(const ::testing::TestParamInfo<DamagedMessage::ParamType>& info) {
  return std::get<1>(info.param).name + "_" + name_of(std::get<0>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Of, DamagedMessage,
                         ::testing::Combine(::testing::Values(DeathCase{2, 0, {}}, DeathCase{2, 1, {}},
                                                              DeathCase{3, 2, {}}, DeathCase{7, 3, {3, 2, 2}},
                                                              DeathCase{7, 0, {3, 2, 2}}),
                                            ::testing::ValuesIn(kDamages)),
                         [](const auto& info) { return name_of(info); });

TEST_P(DamagedMessage, fails_the_session_on_all_ranks_and_names_the_sender) {
  const auto& [kase, damage] = GetParam();
  const int sender = kase.dying;
  std::atomic<bool> is_intact{true};
  const Disturbance damage_first{.on_post = [&, apply = damage.apply](int, Bytes& message) {
    if (is_intact.exchange(false)) apply(message);
  }};
  run_ranks(kase.size,
            [&](Session& session) {
              std::vector<float> values(10, 1.0f);
              const TimePoint start = Clock::now();
              // A rank that is late is refused with the same reason when it submits.
              const std::optional<Error> failure = failure_of(session, allreduce("x", ref(values)));
              ASSERT_TRUE(failure);
              EXPECT_THAT(failure->what(),
                          HasSubstr(fmt::format("rank {} sent what cannot be: damaged message", sender)));
              EXPECT_EQ(failure->kind(), ErrorKind::kSessionFailed);
              EXPECT_LT(Clock::now() - start, kSoon);
            },
            {.host_split = kase.host_split, .wrap = disturb(sender, damage_first)});
  EXPECT_FALSE(is_intact);
}

}  // namespace
}  // namespace hora::testing
