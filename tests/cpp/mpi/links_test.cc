// Ranks of one machine that count as several hosts: what arrives by MPI ends a sleep.

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <thread>

#include "api/session.h"
#include "mpi/open_job.h"
#include "support/calls.h"
#include "support/inbox.h"

namespace hora::testing {
namespace {

using namespace std::chrono_literals;

/// Every rank a host of its own, or one rank and the rest.
std::vector<std::vector<int>> splits() {
  const int size = open_job()->topology().size();
  return {std::vector<int>(static_cast<std::size_t>(size), 1), {1, size - 1}};
}

Duration time_computed() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto all = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return all(usage.ru_utime) + all(usage.ru_stime);
}

TEST(MpiLinks, idle_ranks_of_several_hosts_sleep) {
  for (const std::vector<int>& split : splits()) {
    const Settings settings{.host_split = split};
    Session session(open_job(settings), settings);
    run(session, barrier());
    std::this_thread::sleep_for(200ms);  // the last steps before the silence
    const Duration before = time_computed();
    std::this_thread::sleep_for(500ms);
    EXPECT_LT(time_computed() - before, 5ms) << "1 % of a core";
    run(session, barrier());
  }
}

TEST(MpiLinks, a_message_wakes_a_rank_of_another_host) {
  for (const std::vector<int>& split : splits()) {
    const auto transport = open_job({.host_split = split});
    transport->expect_from(peers_of(*transport));
    EXPECT_TRUE(transport->notices_arrivals());
    EXPECT_TRUE(transport->moves_only_when_called());
    Inbox inbox(*transport);
    for (int round = 0; round < 100; ++round) {
      if (transport->topology().rank() == 0) {
        for (const int peer : peers_of(*transport)) transport->post(peer, Bytes(5000));
        for (const int peer : peers_of(*transport)) static_cast<void>(inbox.next_from(peer));
      } else {
        const TimePoint start = Clock::now();
        Incoming incoming;
        while (!transport->receive(incoming)) transport->sleep(20s);
        EXPECT_LT(Clock::now() - start, 10s);
        transport->post(0, Bytes(3));
      }
    }
    wait_for([&] { return transport->flushed(); });
  }
}

TEST(MpiLinks, a_late_call_finds_sleeping_ranks_awake_soon) {
  for (const std::vector<int>& split : splits()) {
    const Settings settings{.host_split = split};
    Session session(open_job(settings), settings);
    for (int round = 0; round < 5; ++round) {
      run(session, barrier());
      if (session.topology().rank() == round % session.topology().size()) std::this_thread::sleep_for(50ms);
      const TimePoint start = Clock::now();
      run(session, barrier());
      EXPECT_LT(Clock::now() - start, 5s);
    }
  }
}

}  // namespace
}  // namespace hora::testing
