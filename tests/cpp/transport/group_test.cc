#include "transport/group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "support/run_ranks.h"

namespace hora::testing {
namespace {

void yield() {
  std::this_thread::yield();
}

Group make_group(Transport& transport, std::vector<int> members, int tag, Group::Pump pump = yield) {
  const int rank =
      static_cast<int>(std::ranges::find(members, transport.topology().rank()) - members.begin());
  return {transport,      std::make_shared<const std::vector<int>>(std::move(members)), rank, tag, 100,
          std::move(pump)};
}

Bytes pattern(std::size_t length, int salt) {
  Bytes bytes(length);
  for (std::size_t at = 0; at < length; ++at)
    bytes[at] = static_cast<std::byte>(at * 7 + static_cast<std::size_t>(salt));
  return bytes;
}

TEST(Group, numbers_its_members_from_zero) {
  run_transports(5, [](Transport& transport) {
    const int rank = transport.topology().rank();
    if (rank % 2 != 0) return;
    const Group group = make_group(transport, {0, 2, 4}, 7);
    EXPECT_EQ(group.size(), 3);
    EXPECT_EQ(group.rank(), rank / 2);
    EXPECT_EQ(group.index_of(4), 2);
    EXPECT_EQ(group.index_of(3), -1);
    EXPECT_EQ(group.index_of(5), -1);
  });
}

TEST(Group, members_talk_by_their_number_in_the_group) {
  run_transports(5, [](Transport& transport) {
    if (transport.topology().rank() == 1 || transport.topology().rank() == 2) return;
    const Group group = make_group(transport, {0, 3, 4}, 7);
    const Bytes sent = pattern(50, group.rank());
    Bytes got(50);
    Transfer outgoing = group.send((group.rank() + 1) % 3, sent);
    Transfer incoming = group.recv((group.rank() + 2) % 3, got);
    group.wait(incoming);
    group.wait(outgoing);
    EXPECT_TRUE(got == pattern(50, (group.rank() + 2) % 3));
  });
}

TEST(Group, transfers_longer_than_a_piece_arrive_whole) {
  for (const std::uint64_t piece_bytes : {1, 2, 7, 999, 1000, 1001}) {
    run_groups(2,
               [](const Group& group) {
                 const Bytes sent = pattern(1000, group.rank());
                 Bytes got(1000);
                 Transfer incoming = group.recv(1 - group.rank(), got);
                 Transfer outgoing = group.send(1 - group.rank(), sent);
                 group.wait(incoming);
                 group.wait(outgoing);
                 EXPECT_TRUE(got == pattern(1000, 1 - group.rank()));
               },
               {.settings = {.piece_bytes = piece_bytes}});
  }
}

TEST(Group, an_empty_transfer_is_complete_at_once_and_waits_for_nobody) {
  run_groups(2, [](const Group& group) {
    Transfer transfer = group.recv(1 - group.rank(), {});
    EXPECT_TRUE(group.done(transfer));
  });
}

TEST(Group, several_transfers_to_one_peer_keep_their_order) {
  run_groups(2, [](const Group& group) {
    std::vector<Bytes> sent;
    std::vector<Bytes> got;
    std::vector<Transfer> transfers;
    for (int number = 0; number < 20; ++number) {
      sent.push_back(pattern(static_cast<std::size_t>(number * 10), number));
      got.emplace_back(static_cast<std::size_t>(number * 10));
    }
    for (std::size_t number = 0; number < 20; ++number) {
      transfers.push_back(group.send(1 - group.rank(), sent[number]));
      transfers.push_back(group.recv(1 - group.rank(), got[number]));
    }
    for (auto transfer = transfers.rbegin(); transfer != transfers.rend(); ++transfer) group.wait(*transfer);
    EXPECT_EQ(got, sent);
  });
}

TEST(Group, groups_of_different_tags_do_not_mix) {
  run_transports(2, [](Transport& transport) {
    const Group first = make_group(transport, {0, 1}, 1);
    const Group second = make_group(transport, {0, 1}, 2);
    const Bytes one = pattern(30, 1);
    const Bytes two = pattern(30, 2);
    Bytes got_one(30);
    Bytes got_two(30);
    Transfer sends[] = {first.send(1 - first.rank(), one), second.send(1 - first.rank(), two)};
    Transfer recvs[] = {second.recv(1 - first.rank(), got_two), first.recv(1 - first.rank(), got_one)};
    for (Transfer& transfer : recvs) first.wait(transfer);
    for (Transfer& transfer : sends) first.wait(transfer);
    EXPECT_TRUE(got_one == one);
    EXPECT_TRUE(got_two == two);
  });
}

TEST(Group, whatever_happens_while_waiting_may_end_the_wait) {
  run_transports(2, [](Transport& transport) {
    int pumped = 0;
    const Group group = make_group(transport, {0, 1}, 1, [&pumped] {
      if (++pumped == 3) throw std::runtime_error("the session has failed");
    });
    Bytes never(10);
    Transfer transfer = group.recv(1 - group.rank(), never);
    EXPECT_THROW(group.wait(transfer), std::runtime_error);
    EXPECT_EQ(pumped, 3);
  });
}

}  // namespace
}  // namespace hora::testing
