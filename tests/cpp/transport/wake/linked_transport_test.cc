#include "transport/wake/linked_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/calls.h"
#include "support/forwarding_transport.h"
#include "support/inbox.h"
#include "support/run_ranks.h"
#include "transport/memory.h"

namespace hora::testing {
namespace {

using namespace std::chrono_literals;

void expect_from(Transport& transport, const std::vector<int>& peers) {
  transport.expect_from(peers);
}

LinkOptions without_addresses() {
  LinkOptions options;
  options.addresses = [] { return std::vector<IpAddress>{}; };
  return options;
}

TEST(LinkedTransport, a_message_wakes_a_sleeper) {
  for (const bool shared : {false, true}) {
    run_transports(4,
                   [](Transport& transport) {
                     const int rank = transport.topology().rank();
                     // One pair across hosts; the others hear only of their own.
                     if (rank == 0) expect_from(transport, {1, 2});
                     if (rank == 2) expect_from(transport, {0, 3});
                     if (rank == 1) expect_from(transport, {0});
                     if (rank == 3) expect_from(transport, {2});
                     EXPECT_TRUE(transport.notices_arrivals());
                     Inbox inbox(transport);
                     for (int round = 0; round < 100; ++round) {
                       if (rank == 0) {
                         transport.post(2, Bytes(3));
                         static_cast<void>(inbox.next_from(2));
                       } else if (rank == 2) {
                         const TimePoint start = Clock::now();
                         Incoming incoming;
                         while (!transport.receive(incoming)) transport.sleep(20s);
                         EXPECT_LT(Clock::now() - start, 10s);
                         transport.post(0, Bytes(3));
                       }
                     }
                   },
                   {.host_split = {2, 2}, .shared_memory = shared, .links = LinkOptions{}});
  }
}

TEST(LinkedTransport, looks_every_now_and_then_where_a_peer_cannot_be_reached) {
  run_transports(3,
                 [](Transport& transport) {
                   transport.expect_from(peers_of(transport));
                   EXPECT_FALSE(transport.notices_arrivals());
                   Inbox(transport).meet();
                 },
                 {.shared_memory = false, .links = without_addresses()});
}

TEST(LinkedTransport, of_a_rank_that_hears_only_its_own_host_may_sleep) {
  run_transports(3,
                 [](Transport& transport) {
                   const int rank = transport.topology().rank();
                   if (rank == 0) expect_from(transport, {1, 2});
                   if (rank != 0) expect_from(transport, {0});
                   EXPECT_EQ(transport.notices_arrivals(), rank == 1);
                   Inbox inbox(transport);
                   if (rank == 0) {
                     for (const int peer : {1, 2}) transport.post(peer, Bytes(1));
                     for (const int peer : {1, 2}) static_cast<void>(inbox.next_from(peer));
                   } else {
                     static_cast<void>(inbox.next_from(0));
                     transport.post(0, Bytes(1));
                   }
                 },
                 {.host_split = {2, 1}, .shared_memory = true, .links = without_addresses()});
}

TEST(LinkedTransport, that_lost_a_peer_does_not_promise_to_notice_arrivals) {
  run_transports(2,
                 [](Transport& transport) {
                   transport.expect_from(peers_of(transport));
                   if (transport.topology().rank() == 0) return;
                   wait_for([&] {
                     transport.sleep(20s);
                     return !transport.notices_arrivals();
                   });
                 },
                 {.shared_memory = false, .links = LinkOptions{}});
}

TEST(LinkedTransport, a_nudge_ends_a_sleep_but_not_a_nap) {
  run_transports(2,
                 [](Transport& transport) {
                   transport.expect_from(peers_of(transport));
                   transport.nudge();
                   const TimePoint start = Clock::now();
                   transport.sleep(20s);  // a nudge just before counts
                   EXPECT_LT(Clock::now() - start, 10s);
                   const TimePoint nap = Clock::now();
                   transport.nudge();
                   transport.nap(20ms);
                   EXPECT_GE(Clock::now() - nap, 20ms);
                   Inbox(transport).meet();
                 },
                 {.shared_memory = false, .links = LinkOptions{}});
}

/// Messages are there when the test says so, as if the network were slow.
class LateTransport final : public ForwardingTransport {
 public:
  LateTransport(std::unique_ptr<Transport> inner, const std::atomic<bool>& is_late)
      : ForwardingTransport(std::move(inner)), is_late_(is_late) {}
  [[nodiscard]] bool receive(Incoming& incoming) override {
    return !is_late_ && ForwardingTransport::receive(incoming);
  }

 private:
  const std::atomic<bool>& is_late_;
};

TEST(LinkedTransport, looks_without_sleeping_for_a_message_that_is_later_than_its_word) {
  const auto fabric = make_memory_fabric(2);
  std::atomic<bool> is_late{true};
  LinkedTransport sender(std::make_unique<MemoryTransport>(fabric, Topology(0, {0, 1})), {});
  LinkedTransport receiver(std::make_unique<LateTransport>(
                               std::make_unique<MemoryTransport>(fabric, Topology(1, {0, 1})), is_late),
                           {});
  std::thread other([&] { expect_from(sender, {1}); });
  expect_from(receiver, {0});
  other.join();
  receiver.sleep(1ms);
  sender.post(1, Bytes(7));
  Incoming incoming;
  const TimePoint start = Clock::now();
  for (int look = 0; look < 10; ++look) {
    receiver.sleep(20s);
    EXPECT_FALSE(receiver.receive(incoming));
  }
  is_late = false;
  receiver.sleep(20s);
  ASSERT_TRUE(receiver.receive(incoming));
  EXPECT_EQ(incoming.message, Bytes(7));
  EXPECT_LT(Clock::now() - start, 10s);
  const TimePoint then = Clock::now();
  receiver.sleep(2ms);
  EXPECT_GE(Clock::now() - then, 2ms);
}

TEST(SessionOnLinks, works_on_linked_hosts_and_where_links_fail) {
  for (const LinkOptions& links : {LinkOptions{}, without_addresses()}) {
    for (const bool shared : {false, true}) {
      run_ranks(7,
                [](Session& session) {
                  std::vector<float> values(100, 1.0f);
                  for (int round = 0; round < 30; ++round)
                    EXPECT_EQ(error_of(session, allreduce("x", ref(values), ReduceOp::kAverage)), "");
                  std::vector<HandlePtr> handles;
                  for (int number = 0; number < 30; ++number)
                    handles.push_back(session.submit(barrier("b" + std::to_string(number))));
                  for (const HandlePtr& handle : handles) EXPECT_EQ(error_of(session, handle), "");
                  EXPECT_EQ(values, std::vector<float>(100, 1.0f));
                },
                {.host_split = {3, 1, 3}, .shared_memory = shared, .links = links});
    }
  }
}

}  // namespace
}  // namespace hora::testing
