#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "transport/transport.h"

namespace hora::testing {

// A wait that takes so long has missed what it waits for.
constexpr std::chrono::seconds kLongWait{20};

inline Bytes pattern(std::size_t length, int from, int to, int number = 0) {
  const auto salt = static_cast<std::size_t>(from * 59 + to * 17 + number * 3);
  Bytes bytes(length);
  for (std::size_t at = 0; at < length; ++at) bytes[at] = static_cast<std::byte>(at * 7 + at / 251 + salt);
  return bytes;
}

/// Everybody but this rank, the next one first.
inline std::vector<int> peers_of(const Transport& transport) {
  std::vector<int> peers;
  const int size = transport.topology().size();
  for (int step = 1; step < size; ++step) peers.push_back((transport.topology().rank() + step) % size);
  return peers;
}

template <typename Condition>
void wait_for(Condition condition) {
  const TimePoint deadline = Clock::now() + kLongWait;
  while (!condition()) {
    if (Clock::now() > deadline) throw std::runtime_error("it did not happen in time");
    std::this_thread::yield();
  }
}

/// Takes messages sender by sender: what others have sent meanwhile is kept.
class Inbox {
 public:
  explicit Inbox(Transport& transport) : transport_(transport) {}

  [[nodiscard]] Bytes next_from(int peer) {
    std::deque<Bytes>& messages = kept_[peer];
    wait_for([&] {
      Incoming incoming;
      if (messages.empty() && transport_.receive(incoming))
        kept_[incoming.peer].push_back(std::move(incoming.message));
      return !messages.empty();
    });
    Bytes message = std::move(messages.front());
    messages.pop_front();
    return message;
  }

  /// Until all ranks have come here.
  void meet() {
    for (const int peer : peers_of(transport_)) transport_.post(peer, Bytes(1));
    for (const int peer : peers_of(transport_)) EXPECT_EQ(next_from(peer), Bytes(1)) << "from " << peer;
    wait_for([&] { return transport_.flushed(); });
  }

 private:
  Transport& transport_;
  std::map<int, std::deque<Bytes>> kept_;  // by sender
};

}  // namespace hora::testing
