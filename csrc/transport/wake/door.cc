#include "transport/wake/door.h"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace hora {
namespace {

// More than so many at once that have not said who they are, and the first has to go.
constexpr std::size_t kMostVisitors = 64;

}  // namespace

Invitation Door::invite(int peer, std::span<const IpAddress> addresses) {
  Invitation invitation{.secret = make_secret(), .answer = make_secret(), .port = listener_.port()};
  const auto some = addresses.first(std::min(addresses.size(), Invitation::kMostAddresses));
  std::ranges::copy(some, invitation.addresses.begin());
  invitation.address_count = static_cast<std::uint16_t>(some.size());
  expected_.insert_or_assign(peer, Expected{invitation.secret, invitation.answer, std::nullopt});
  return invitation;
}

void Door::serve(Duration at_most) {
  std::vector<pollfd> polled{{listener_.descriptor(), POLLIN, 0}};
  for (const Visitor& visitor : visitors_) polled.push_back({visitor.socket.descriptor(), POLLIN, 0});
  if (!poll_until(polled, Clock::now() + at_most)) return;
  while (std::optional<TcpSocket> socket = listener_.accept()) {
    if (visitors_.size() == kMostVisitors) visitors_.erase(visitors_.begin());
    visitors_.push_back({std::move(*socket)});
  }
  std::erase_if(visitors_, [this](Visitor& visitor) { return is_done_with(visitor); });
}

bool Door::is_done_with(Visitor& visitor) {
  const auto count = visitor.socket.receive(std::span(visitor.said).subspan(visitor.length));
  if (!count) return true;
  visitor.length += *count;
  if (visitor.length < visitor.said.size()) return false;
  let_in(visitor);
  return true;
}

/// A peer may knock at several addresses; the first time counts.
void Door::let_in(Visitor& visitor) {
  const auto greeting = std::bit_cast<Greeting>(visitor.said);
  const auto peer = expected_.find(greeting.rank);
  if (peer == expected_.end() || !is_same(greeting.secret, peer->second.secret) || peer->second.socket)
    return;
  if (visitor.socket.send(peer->second.answer)) peer->second.socket = std::move(visitor.socket);
}

std::optional<TcpSocket> Door::take(int peer) {
  return std::exchange(expected_.at(peer).socket, std::nullopt);
}

}  // namespace hora
