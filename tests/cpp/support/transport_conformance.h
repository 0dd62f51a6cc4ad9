#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/inbox.h"
#include "transport/transport.h"

namespace hora::testing {

/// How one transport is brought up: a new one includes this file, instantiates TransportConformance with such
/// a row and thereby has every test below.
struct TransportCase {
  std::string name;
  /// Runs `body` on every rank of a job of two ranks or more. Where ranks are processes, each calls it.
  std::function<void(const std::function<void(Transport&)>& body)> run;
};

inline void PrintTo(const TransportCase& kase, std::ostream* out) {
  *out << kase.name;
}

inline std::string name_of(const ::testing::TestParamInfo<TransportCase>& info) {
  return info.param.name;
}

class TransportConformance : public ::testing::TestWithParam<TransportCase> {
 protected:
  void run(const std::function<void(Transport&, Inbox&)>& body) {
    GetParam().run([&body](Transport& transport) {
      Inbox inbox(transport);
      body(transport, inbox);
    });
  }
};

TEST_P(TransportConformance, ranks_count_from_zero_and_know_their_number) {
  run([](Transport& transport, Inbox& inbox) {
    const Topology& topology = transport.topology();
    EXPECT_GE(topology.size(), 2);
    EXPECT_GE(topology.rank(), 0);
    EXPECT_LT(topology.rank(), topology.size());
    EXPECT_FALSE(transport.name().empty());
    inbox.meet();
  });
}

TEST_P(TransportConformance, messages_of_one_sender_arrive_in_order_and_whole) {
  run([](Transport& transport, Inbox& inbox) {
    const int rank = transport.topology().rank();
    const std::vector<std::size_t> lengths{1, 0, 2, 100, 3998, 3999, 4000, 4001, 8000, 65536, 100000};
    const auto length = [&](int number) {
      return lengths[static_cast<std::size_t>(number) % lengths.size()];
    };
    for (int number = 0; number < 22; ++number) {
      for (const int peer : peers_of(transport))
        transport.post(peer, pattern(length(number), rank, peer, number));
    }
    for (int number = 0; number < 22; ++number) {
      for (const int peer : peers_of(transport))
        EXPECT_TRUE(inbox.next_from(peer) == pattern(length(number), peer, rank, number))
            << number << " from " << peer;
    }
    inbox.meet();
  });
}

TEST_P(TransportConformance, many_messages_may_be_posted_before_any_is_taken) {
  run([](Transport& transport, Inbox& inbox) {
    constexpr int kMany = 2000;
    const int rank = transport.topology().rank();
    const int next = peers_of(transport).front();
    const int prev = peers_of(transport).back();
    for (int number = 0; number < kMany; ++number) transport.post(next, pattern(20, rank, next, number));
    for (int number = 0; number < kMany; ++number)
      ASSERT_TRUE(inbox.next_from(prev) == pattern(20, prev, rank, number)) << number;
    inbox.meet();
  });
}

TEST_P(TransportConformance, no_message_is_there_before_one_is_posted) {
  run([](Transport& transport, Inbox&) {
    Incoming incoming;
    EXPECT_FALSE(transport.receive(incoming));
    EXPECT_TRUE(transport.flushed());
  });
}

TEST_P(TransportConformance, data_arrives_between_all_pairs_at_once) {
  run([](Transport& transport, Inbox& inbox) {
    const int rank = transport.topology().rank();
    constexpr std::size_t kLength = 300'000;
    std::vector<Bytes> sent;
    std::vector<Bytes> got;
    std::vector<Ticket> tickets;
    for (const int peer : peers_of(transport)) {
      sent.push_back(pattern(kLength, rank, peer));
      got.emplace_back(kLength);
    }
    for (std::size_t at = 0; at < sent.size(); ++at) {
      tickets.push_back(transport.recv(peers_of(transport)[at], 1, got[at]));
      tickets.push_back(transport.send(peers_of(transport)[at], 1, sent[at]));
    }
    for (Ticket& ticket : tickets) wait_for([&] { return transport.done(ticket); });
    for (std::size_t at = 0; at < got.size(); ++at)
      EXPECT_TRUE(got[at] == pattern(kLength, peers_of(transport)[at], rank))
          << "from " << peers_of(transport)[at];
    inbox.meet();
  });
}

TEST_P(TransportConformance, data_of_one_pair_and_tag_is_matched_in_order) {
  run([](Transport& transport, Inbox& inbox) {
    constexpr std::size_t kCount = 200;
    const int rank = transport.topology().rank();
    const int next = peers_of(transport).front();
    const int prev = peers_of(transport).back();
    std::vector<Bytes> sent;
    std::vector<Bytes> got;
    for (std::size_t number = 0; number < kCount; ++number) {
      sent.push_back(pattern(1 + number % 50, rank, next, static_cast<int>(number)));
      got.emplace_back(1 + number % 50);
    }
    std::vector<Ticket> sends;
    std::vector<Ticket> recvs;
    for (std::size_t number = 0; number < kCount; ++number)
      sends.push_back(transport.send(next, 1, sent[number]));
    for (std::size_t number = 0; number < kCount; ++number)
      recvs.push_back(transport.recv(prev, 1, got[number]));
    // Asked for last to first: the order of asking does not matter.
    for (auto ticket = recvs.rbegin(); ticket != recvs.rend(); ++ticket)
      wait_for([&] { return transport.done(*ticket); });
    for (Ticket& ticket : sends) wait_for([&] { return transport.done(ticket); });
    for (std::size_t number = 0; number < kCount; ++number)
      ASSERT_TRUE(got[number] == pattern(1 + number % 50, prev, rank, static_cast<int>(number))) << number;
    inbox.meet();
  });
}

TEST_P(TransportConformance, data_of_different_tags_does_not_mix) {
  run([](Transport& transport, Inbox& inbox) {
    const int rank = transport.topology().rank();
    const int next = peers_of(transport).front();
    const int prev = peers_of(transport).back();
    const Bytes sent[] = {pattern(64, rank, next, 1), pattern(64, rank, next, 2), pattern(64, rank, next, 3)};
    std::vector<Bytes> got(3, Bytes(64));
    std::vector<Ticket> tickets;
    for (const int tag : {0, 1, 2}) tickets.push_back(transport.send(next, tag, sent[tag]));
    for (const int tag : {2, 0, 1})
      tickets.push_back(transport.recv(prev, tag, got[static_cast<std::size_t>(tag)]));
    for (Ticket& ticket : tickets) wait_for([&] { return transport.done(ticket); });
    for (const int tag : {0, 1, 2})
      EXPECT_TRUE(got[static_cast<std::size_t>(tag)] == pattern(64, prev, rank, tag + 1)) << tag;
    inbox.meet();
  });
}

TEST_P(TransportConformance, a_receive_is_not_done_before_its_data_was_sent) {
  run([](Transport& transport, Inbox& inbox) {
    const int rank = transport.topology().rank();
    const int next = peers_of(transport).front();
    const int prev = peers_of(transport).back();
    Bytes got(100);
    Ticket incoming = transport.recv(prev, 1, got);
    EXPECT_FALSE(transport.done(incoming));
    inbox.meet();
    const Bytes sent = pattern(100, rank, next);
    Ticket outgoing = transport.send(next, 1, sent);
    wait_for([&] { return transport.done(incoming); });
    wait_for([&] { return transport.done(outgoing); });
    EXPECT_TRUE(got == pattern(100, prev, rank));
    inbox.meet();
  });
}

TEST_P(TransportConformance, messages_go_on_while_data_is_under_way) {
  run([](Transport& transport, Inbox& inbox) {
    const int rank = transport.topology().rank();
    const int next = peers_of(transport).front();
    const int prev = peers_of(transport).back();
    Bytes got(200'000);
    Ticket incoming = transport.recv(prev, 0, got);
    for (int number = 0; number < 10; ++number) transport.post(next, pattern(5000, rank, next, number));
    for (int number = 0; number < 10; ++number)
      EXPECT_TRUE(inbox.next_from(prev) == pattern(5000, prev, rank, number));
    EXPECT_FALSE(transport.done(incoming));
    inbox.meet();
    const Bytes sent = pattern(200'000, rank, next);
    Ticket outgoing = transport.send(next, 0, sent);
    wait_for([&] { return transport.done(incoming); });
    wait_for([&] { return transport.done(outgoing); });
    EXPECT_TRUE(got == pattern(200'000, prev, rank));
    inbox.meet();
  });
}

TEST_P(TransportConformance, a_sleep_ends_when_its_time_is_over) {
  run([](Transport& transport, Inbox& inbox) {
    if (transport.topology().rank() == 0) {
      const TimePoint start = Clock::now();
      transport.sleep(std::chrono::milliseconds(2));
      EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(2));
      for (const int peer : peers_of(transport)) transport.post(peer, pattern(1, 0, peer));
    } else {
      // Silent until then, for a message might end the sleep.
      EXPECT_TRUE(inbox.next_from(0) == pattern(1, 0, transport.topology().rank()));
    }
    inbox.meet();
  });
}

TEST_P(TransportConformance, another_thread_may_wake_a_sleep) {
  run([](Transport& transport, Inbox& inbox) {
    const TimePoint start = Clock::now();
    std::thread waker([&] { transport.wake(); });
    transport.sleep(kLongWait);
    waker.join();
    EXPECT_LT(Clock::now() - start, kLongWait / 2);
    inbox.meet();
  });
}

TEST_P(TransportConformance, a_message_ends_a_sleep_where_the_transport_says_so) {
  run([](Transport& transport, Inbox& inbox) {
    const int rank = transport.topology().rank();
    if (transport.notices_arrivals()) {
      const TimePoint start = Clock::now();
      if (rank == 0) {
        for (const int peer : peers_of(transport)) transport.post(peer, pattern(10, 0, peer));
      } else {
        transport.sleep(kLongWait);
        EXPECT_LT(Clock::now() - start, kLongWait / 2);
        EXPECT_TRUE(inbox.next_from(0) == pattern(10, 0, rank));
      }
    }
    inbox.meet();
  });
}

}  // namespace hora::testing
