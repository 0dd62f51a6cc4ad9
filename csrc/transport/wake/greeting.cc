#include "transport/wake/greeting.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>

#include "base/error.h"
#include "base/event.h"

namespace hora {

Secret make_secret() {
  Secret secret{};
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    raise(ErrorKind::kStartup, "getrandom failed");
  return secret;
}

bool is_same(const Secret& one, const Secret& other) {
  std::byte difference{0};
  for (std::size_t at = 0; at < one.size(); ++at) difference |= one[at] ^ other[at];
  return difference == std::byte{0};
}

bool is_sound(const Invitation& invitation) {
  if (invitation.address_count > Invitation::kMostAddresses) return false;
  return std::ranges::all_of(invitation.addresses, [](const IpAddress& address) {
    return address.family == IpAddress::Family::kV4 || address.family == IpAddress::Family::kV6;
  });
}

bool poll_until(std::span<pollfd> polled, TimePoint until) {
  const timespec timeout = to_timespec(until - Clock::now());
  return ppoll(polled.data(), polled.size(), &timeout, nullptr) > 0;
}

}  // namespace hora
