#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/tcp.h"

struct pollfd;

namespace hora {

// How two ranks find each other over TCP, and make sure that it is they. Whoever connects says who it is and
// the secret that it was told; whoever listens answers with another secret. So strangers are turned away on
// both sides, also those that listen at the same address and port on another machine.

using Secret = std::array<std::byte, 16>;

/// Throws Error(kStartup) where the system has no random numbers.
[[nodiscard]] Secret make_secret();
/// Takes the same time whatever the difference is, so that a stranger learns nothing from it.
[[nodiscard]] bool is_same(const Secret& one, const Secret& other);

/// What one rank tells another, over a way that strangers cannot read, so that it can connect.
struct Invitation {
  static constexpr std::size_t kMostAddresses = 16;

  Secret secret{};
  Secret answer{};
  std::uint16_t port = 0;
  std::uint16_t address_count = 0;  ///< 0: no connection is to be had
  std::array<IpAddress, kMostAddresses> addresses{};
};

/// Whether somebody can have written this.
[[nodiscard]] bool is_sound(const Invitation& invitation);

/// What is said first on a connection.
struct Greeting {
  Secret secret;
  std::int32_t rank;
};

/// Waits until one of them is ready; says whether one is.
[[nodiscard]] bool poll_until(std::span<pollfd> polled, TimePoint until);

}  // namespace hora
