#include "transport/wake/door.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "support/inbox.h"
#include "support/tcp_pair.h"
#include "transport/wake/dial.h"

namespace hora::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kPeer = 3;
const std::array kHere{kLoopback};

/// Lets `serve` run until a thread has done what it does.
template <typename Act>
void attend(Door& door, Act act) {
  std::atomic<bool> is_over{false};
  std::thread actor([&] {
    act();
    is_over = true;
  });
  wait_for([&] {
    door.serve(1ms);
    return is_over.load();
  });
  actor.join();
}

TcpSocket knock(const Invitation& invitation, const Greeting& greeting) {
  auto socket = TcpSocket::connect(kLoopback, invitation.port);
  EXPECT_TRUE(socket.has_value());
  await_event_on(*socket, POLLOUT);
  EXPECT_TRUE(socket->send(std::as_bytes(std::span(&greeting, 1))));
  return std::move(*socket);
}

void expect_turned_away(const TcpSocket& socket) {
  std::byte got{};
  wait_for([&] {
    const auto count = socket.receive({&got, 1});
    EXPECT_NE(count, 1u) << "a stranger got an answer";
    return !count;
  });
}

TEST(Door, lets_in_who_was_invited) {
  Door door;
  const Invitation invitation = door.invite(kPeer, kHere);
  std::optional<TcpSocket> socket;
  attend(door, [&] { socket = dial(invitation, kPeer, Clock::now() + kLongWait); });
  EXPECT_TRUE(socket.has_value());
  EXPECT_TRUE(door.take(kPeer).has_value());
  EXPECT_FALSE(door.take(kPeer).has_value());
}

TEST(Door, turns_strangers_away) {
  Door door;
  const Invitation invitation = door.invite(kPeer, kHere);
  Secret almost = invitation.secret;
  almost.back() ^= std::byte{1};
  attend(door, [&] {
    expect_turned_away(knock(invitation, {almost, kPeer}));
    expect_turned_away(knock(invitation, {invitation.secret, kPeer + 1}));
    expect_turned_away(knock(invitation, {Secret{}, kPeer}));
  });
  EXPECT_FALSE(door.take(kPeer).has_value());
}

TEST(Door, is_not_held_up_by_those_who_say_nothing) {
  Door door;
  const Invitation invitation = door.invite(kPeer, kHere);
  std::vector<TcpSocket> silent;
  std::optional<TcpSocket> socket;
  attend(door, [&] {
    for (int number = 0; number < 100; ++number)
      silent.push_back(std::move(*TcpSocket::connect(kLoopback, invitation.port)));
    socket = dial(invitation, kPeer, Clock::now() + kLongWait);
  });
  EXPECT_TRUE(socket.has_value());
}

TEST(Door, lets_a_peer_in_once) {
  Door door;
  const Invitation invitation = door.invite(kPeer, kHere);
  attend(door, [&] {
    const TcpSocket first = knock(invitation, {invitation.secret, kPeer});
    await_event_on(first, POLLIN);
    expect_turned_away(knock(invitation, {invitation.secret, kPeer}));
  });
}

TEST(Dial, goes_on_to_the_next_address) {
  Door door;
  // The first is set aside for documentation and reaches nobody.
  const IpAddress nobody{.bytes = {std::byte{192}, std::byte{0}, std::byte{2}, std::byte{1}}};
  const Invitation invitation = door.invite(kPeer, std::array{nobody, kLoopback});
  std::optional<TcpSocket> socket;
  attend(door, [&] { socket = dial(invitation, kPeer, Clock::now() + kLongWait); });
  EXPECT_TRUE(socket.has_value());
}

TEST(Dial, does_not_take_another_listener_for_the_right_one) {
  Door door;
  Invitation invitation = door.invite(kPeer, kHere);
  invitation.answer = make_secret();
  attend(door, [&] { EXPECT_FALSE(dial(invitation, kPeer, Clock::now() + kLongWait).has_value()); });
}

TEST(Dial, gives_up_where_nobody_answers) {
  Invitation invitation;
  EXPECT_FALSE(dial(invitation, kPeer, Clock::now() + kLongWait).has_value());
  const TcpListener silent;
  invitation.port = silent.port();
  invitation.address_count = 1;
  invitation.addresses[0] = kLoopback;
  const TimePoint start = Clock::now();
  EXPECT_FALSE(dial(invitation, kPeer, start + 20ms).has_value());
  EXPECT_LT(Clock::now() - start, 10s);
}

TEST(Invitation, with_more_addresses_than_it_holds_is_not_sound) {
  Invitation invitation;
  invitation.address_count = Invitation::kMostAddresses;
  EXPECT_TRUE(is_sound(invitation));
  ++invitation.address_count;
  EXPECT_FALSE(is_sound(invitation));
}

TEST(Invitation, with_an_address_of_no_kind_is_not_sound) {
  Invitation invitation;
  invitation.addresses[3].family = static_cast<IpAddress::Family>(7);
  EXPECT_FALSE(is_sound(invitation));
}

}  // namespace
}  // namespace hora::testing
