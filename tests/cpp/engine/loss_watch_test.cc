#include "engine/loss_watch.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <utility>

#include "support/forwarding_transport.h"
#include "transport/memory.h"

namespace hora::testing {
namespace {

using namespace std::chrono_literals;

class LosingTransport final : public ForwardingTransport {
 public:
  LosingTransport() : ForwardingTransport(make_local_transport()) {}
  [[nodiscard]] std::optional<Loss> take_loss() override {
    if (losses.empty()) return std::nullopt;
    Loss loss = std::move(losses.front());
    losses.pop_front();
    return loss;
  }
  std::deque<Loss> losses;
};

constexpr TimePoint kStart = TimePoint() + 1h;

TEST(LossWatch, finds_nothing_while_nothing_is_lost) {
  LosingTransport transport;
  LossWatch watch(transport);
  watch.look(kStart);
  EXPECT_FALSE(watch.has_any());
  EXPECT_EQ(watch.first(kStart + 1h), nullptr);
}

TEST(LossWatch, waits_for_the_last_messages_of_a_lost_rank) {
  LosingTransport transport;
  LossWatch watch(transport);
  transport.losses = {{3, "it fell"}};
  watch.look(kStart);
  EXPECT_TRUE(watch.has_any());
  EXPECT_EQ(watch.first(kStart + 199ms), nullptr);
  ASSERT_NE(watch.first(kStart + 200ms), nullptr);
  EXPECT_EQ(watch.first(kStart + 200ms)->how, "it fell");
}

TEST(LossWatch, keeps_to_the_first_whatever_is_lost_later) {
  LosingTransport transport;
  LossWatch watch(transport);
  transport.losses = {{3, "it fell"}, {1, "it fell, too"}};
  watch.look(kStart);
  transport.losses = {{2, "it fell at last"}};
  watch.look(kStart + 1s);
  EXPECT_EQ(watch.first(kStart + 1h)->rank, 3);
}

TEST(LossWatch, finds_the_first_among_some_ranks) {
  LosingTransport transport;
  LossWatch watch(transport);
  transport.losses = {{3, "it fell"}, {1, "it fell, too"}};
  watch.look(kStart);
  EXPECT_EQ(watch.first_of(std::array{1, 2}, kStart + 1s)->rank, 1);
  EXPECT_EQ(watch.first_of(std::array{1, 2}, kStart), nullptr);
  EXPECT_EQ(watch.first_of(std::array{0, 2}, kStart + 1s), nullptr);
}

}  // namespace
}  // namespace hora::testing
