// What comes over TCP: the first byte says whether to a door at which one rank is expected, or over the
// connection of a rank that was let in, or from whoever answers a rank that was invited. An invitation, which
// comes another way, as well.

#include <poll.h>

#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "fuzz.h"
#include "transport/wake/dial.h"
#include "transport/wake/door.h"
#include "transport/wake/links.h"

namespace hora::fuzz {
namespace {

constexpr IpAddress kLoopback{.bytes = {std::byte{127}, {}, {}, std::byte{1}}};
constexpr int kPeer = 1;
constexpr auto kAtMost = std::chrono::seconds(5);

TcpSocket connect_to(std::uint16_t port) {
  auto socket = TcpSocket::connect(kLoopback, port);
  require(socket.has_value());
  pollfd polled{socket->descriptor(), POLLOUT, 0};
  require(poll(&polled, 1, 5000) == 1 && socket->connected());
  return std::move(*socket);
}

/// Nobody gets in who does not know the secret, which no input does.
void knock(std::span<const std::byte> said) {
  static Door door;  // one port for all inputs: the system keeps those that were used for a while
  const Invitation invitation = door.invite(kPeer, {});
  const TcpSocket stranger = connect_to(invitation.port);
  door.serve(kAtMost);
  if (said.empty() || !stranger.send(said)) return;
  door.serve(kAtMost);
  require(!door.take(kPeer));
}

void speak(std::span<const std::byte> words) {
  static const TcpListener listener;
  const TcpSocket peer = connect_to(listener.port());
  std::vector<Links::Connection> connections;
  connections.push_back({kPeer, std::move(*listener.accept())});
  Links links(std::move(connections), true);
  links.count_posted(kPeer);
  if (words.empty() || !peer.send(words)) return;
  links.look();
  links.count_posted(kPeer);
}

void check_invitation(std::span<const std::byte> input) {
  Invitation invitation;
  std::memcpy(&invitation, input.data(), std::min(sizeof(invitation), input.size()));
  if (is_sound(invitation)) require(invitation.address_count <= Invitation::kMostAddresses);
}

/// Who does not know the answer is not taken for the rank that has invited.
void answer(std::span<const std::byte> said) {
  static const TcpListener listener;
  Invitation invitation;
  invitation.answer = make_secret();
  invitation.port = listener.port();
  invitation.address_count = 1;
  invitation.addresses[0] = kLoopback;
  const std::jthread stranger([&] {
    pollfd polled{listener.descriptor(), POLLIN, 0};
    if (poll(&polled, 1, 5000) != 1) return;
    if (const auto socket = listener.accept(); socket && !said.empty()) static_cast<void>(socket->send(said));
  });
  require(!dial(invitation, kPeer, Clock::now() + kAtMost));
}

}  // namespace

void take(std::span<const std::byte> input) {
  if (input.empty()) return;
  const std::span<const std::byte> rest = input.subspan(1);
  switch (static_cast<unsigned>(input[0]) % 4) {
    case 0:
      return knock(rest);
    case 1:
      return speak(rest);
    case 2:
      return check_invitation(rest);
    default:
      return answer(rest);
  }
}

}  // namespace hora::fuzz
