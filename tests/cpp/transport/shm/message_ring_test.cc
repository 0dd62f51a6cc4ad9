#include "transport/shm/message_ring.h"

#include <gmock/gmock.h>

#include <memory>
#include <thread>

#include "base/error.h"

namespace hora {
namespace {

struct Pair {
  std::unique_ptr<Ring> ring = std::make_unique<Ring>();
  RingWriter writer{*ring};
  RingReader reader{*ring};
};

Bytes message_of(std::size_t length, std::size_t number = 0) {
  Bytes message(length);
  for (std::size_t at = 0; at < length; ++at) message[at] = static_cast<std::byte>(at * 7 + number);
  return message;
}

TEST(MessageRing, messages_of_every_length_arrive_whole_and_in_order) {
  Pair pair;
  Bytes got;
  for (std::size_t length = 0; length < 300; ++length) {
    pair.writer.post(message_of(length));
    pair.writer.post(message_of(1, length));
    ASSERT_TRUE(pair.reader.receive(got));
    ASSERT_EQ(got, message_of(length));
    ASSERT_TRUE(pair.reader.receive(got));
    ASSERT_EQ(got, message_of(1, length));
    ASSERT_FALSE(pair.reader.receive(got));
  }
}

TEST(MessageRing, what_does_not_fit_waits_at_the_sender) {
  Pair pair;
  const Bytes large = message_of(100'000);
  pair.writer.post(large);
  pair.writer.post(message_of(3));
  EXPECT_FALSE(pair.writer.is_through());
  Bytes got;
  while (!pair.reader.receive(got)) static_cast<void>(pair.writer.flush());
  EXPECT_EQ(got, large);
  while (!pair.reader.receive(got)) static_cast<void>(pair.writer.flush());
  EXPECT_EQ(got, message_of(3));
  EXPECT_TRUE(pair.writer.flush());
}

TEST(MessageRing, a_cell_that_has_begun_to_arrive_is_noticed) {
  Pair pair;
  EXPECT_FALSE(pair.reader.has_cell());
  pair.writer.post({});
  EXPECT_TRUE(pair.reader.has_cell());
}

TEST(MessageRing, two_threads_pass_many_messages) {
  Pair pair;
  constexpr std::size_t kMany = 20'000;
  std::thread sender([&] {
    for (std::size_t number = 0; number < kMany; ++number) pair.writer.post(message_of(number % 200, number));
    while (!pair.writer.flush()) std::this_thread::yield();
  });
  Bytes got;
  for (std::size_t number = 0; number < kMany; ++number) {
    while (!pair.reader.receive(got)) std::this_thread::yield();
    ASSERT_EQ(got, message_of(number % 200, number));
  }
  sender.join();
}

TEST(MessageRing, a_damaged_cell_is_an_error) {
  Pair pair;
  pair.writer.post(message_of(10));
  pair.ring->cells[0].length = 57;
  Bytes got;
  EXPECT_THROW(static_cast<void>(pair.reader.receive(got)), Error);
}

}  // namespace
}  // namespace hora
