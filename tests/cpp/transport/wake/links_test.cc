#include "transport/wake/links.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "base/event.h"
#include "support/inbox.h"
#include "support/tcp_pair.h"

namespace hora::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kPeer = 5;

/// This rank's end of a connection and, in the hands of the test, that of its peer.
class OneLink : public ::testing::Test {
 protected:
  using Word = std::uint64_t;
  static Word asleep(std::uint64_t count) { return count << 1; }
  static Word wake(std::uint64_t count) { return count << 1 | 1; }

  OneLink() {
    TcpPair pair = make_tcp_pair();
    std::vector<Links::Connection> connections;
    connections.push_back({kPeer, std::move(pair.one)});
    links_.emplace(std::move(connections), true);
    peer_.emplace(std::move(pair.other));
  }

  void say(Word word) { ASSERT_TRUE(peer_->send(std::as_bytes(std::span(&word, 1)))); }
  Word hear() {
    Word word = 0;
    await_event_on(*peer_, POLLIN);
    EXPECT_EQ(peer_->receive(std::as_writable_bytes(std::span(&word, 1))), sizeof(word));
    return word;
  }
  [[nodiscard]] bool hears_nothing() {
    std::byte byte{};
    return peer_->receive({&byte, 1}) == 0u;
  }
  Duration sleep(Duration at_most) {
    const TimePoint start = Clock::now();
    links_->sleep(bell_.get(), at_most);
    return Clock::now() - start;
  }

  const Descriptor bell_ = make_event();
  std::optional<Links> links_;
  std::optional<TcpSocket> peer_;
};

TEST_F(OneLink, says_nothing_while_nobody_sleeps) {
  for (int number = 0; number < 1000; ++number) {
    links_->count_posted(kPeer);
    links_->count_received(kPeer);
  }
  links_->look();
  EXPECT_TRUE(hears_nothing());
}

TEST_F(OneLink, says_once_that_this_rank_sleeps_and_how_much_it_has) {
  links_->count_received(kPeer);
  EXPECT_GE(sleep(1ms), 1ms);
  EXPECT_GE(sleep(1ms), 1ms);
  EXPECT_EQ(hear(), asleep(1));
  EXPECT_TRUE(hears_nothing());
}

TEST_F(OneLink, wakes_a_peer_that_sleeps_once) {
  say(asleep(0));
  links_->count_posted(kPeer);
  EXPECT_EQ(hear(), wake(1));
  links_->count_posted(kPeer);
  EXPECT_TRUE(hears_nothing());
}

TEST_F(OneLink, wakes_a_peer_that_went_to_sleep_before_a_message_reached_it) {
  links_->count_posted(kPeer);
  say(asleep(0));
  links_->look();
  EXPECT_EQ(hear(), wake(1));
  say(asleep(1));
  links_->look();
  EXPECT_TRUE(hears_nothing());
}

TEST_F(OneLink, wakes_a_peer_even_while_this_rank_sleeps) {
  links_->count_posted(kPeer);
  std::thread sleeper([&] { sleep(kLongWait); });
  EXPECT_EQ(hear(), asleep(0));
  say(asleep(0));
  EXPECT_EQ(hear(), wake(1));
  ring_event(bell_.get());
  sleeper.join();
}

TEST_F(OneLink, does_not_sleep_between_the_word_and_its_message) {
  EXPECT_GE(sleep(1ms), 1ms);
  say(wake(2));
  for (int message = 0; message < 2; ++message) {
    EXPECT_LT(sleep(kLongWait), kLongWait / 2);
    EXPECT_LT(sleep(kLongWait), kLongWait / 2);
    links_->count_received(kPeer);
  }
  EXPECT_GE(sleep(2ms), 2ms);
  EXPECT_EQ(hear(), asleep(0));
  EXPECT_EQ(hear(), asleep(2));
}

TEST_F(OneLink, sleeps_on_when_the_message_was_there_before_the_word) {
  EXPECT_GE(sleep(1ms), 1ms);
  links_->count_received(kPeer);
  say(wake(1));
  EXPECT_GE(sleep(2ms), 2ms);
  EXPECT_EQ(hear(), asleep(0));
  EXPECT_EQ(hear(), asleep(1));
}

TEST_F(OneLink, a_word_in_pieces_counts_when_it_is_whole) {
  const Word word = asleep(0);
  const auto bytes = std::as_bytes(std::span(&word, 1));
  links_->count_posted(kPeer);
  ASSERT_TRUE(peer_->send(bytes.first(3)));
  links_->look();
  ASSERT_TRUE(peer_->send(bytes.subspan(3)));
  wait_for([&] {
    links_->look();
    return !hears_nothing();
  });
}

TEST_F(OneLink, a_sleep_ends_too_when_another_thread_hears_the_word) {
  for (Word number = 1; number <= 200; ++number) {
    Duration slept{};
    std::thread sleeper([&] { slept = sleep(5s); });
    EXPECT_EQ(hear(), asleep(number - 1));
    say(wake(number));
    links_->look();
    sleeper.join();
    ASSERT_LT(slept, 4s) << number;
    links_->count_received(kPeer);
    hush_event(bell_.get());
  }
}

TEST_F(OneLink, a_bell_ends_a_sleep) {
  ring_event(bell_.get());
  EXPECT_LT(sleep(kLongWait), kLongWait / 2);
  EXPECT_GE(sleep(2ms), 2ms);
}

TEST_F(OneLink, is_not_whole_any_more_when_the_peer_has_gone) {
  EXPECT_TRUE(links_->are_whole());
  peer_.reset();
  EXPECT_LT(sleep(kLongWait), kLongWait / 2);
  EXPECT_FALSE(links_->are_whole());
  EXPECT_GE(sleep(2ms), 2ms) << "spins";
}

TEST_F(OneLink, tells_the_end_of_a_connection_once) {
  EXPECT_EQ(links_->take_ended(), std::nullopt);
  peer_.reset();
  const TimePoint deadline = Clock::now() + 5s;
  std::optional<int> ended;
  while (!(ended = links_->take_ended()) && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(ended, kPeer);
  EXPECT_EQ(links_->take_ended(), std::nullopt);
}

}  // namespace
}  // namespace hora::testing
