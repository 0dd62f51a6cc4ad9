#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/descriptor.h"

namespace hora {

/// An address of a machine, as it may be sent to another.
struct IpAddress {
  enum class Family : std::uint8_t { kV4, kV6 };
  Family family = Family::kV4;
  std::array<std::byte, 16> bytes{};  ///< of which IPv4 uses four
};

/// Those at which others may reach this machine, loopback last.
[[nodiscard]] std::vector<IpAddress> own_addresses();

/// A connection that never blocks.
class TcpSocket {
 public:
  /// Begins to connect; `connected` says later what has become of it. Nothing where there can be no socket
  /// for such an address.
  [[nodiscard]] static std::optional<TcpSocket> connect(const IpAddress& address, std::uint16_t port);

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  /// Once it is writable: whether the connection was made.
  [[nodiscard]] bool connected() const;

  /// Says whether all of it could be sent. What is sent here is short and rare, so that it always can be
  /// unless the connection is broken.
  [[nodiscard]] bool send(std::span<const std::byte> data) const;
  /// How much of `data` was received; nothing when the connection is closed or broken.
  [[nodiscard]] std::optional<std::size_t> receive(std::span<std::byte> data) const;

 private:
  friend class TcpListener;
  explicit TcpSocket(Descriptor socket);

  Descriptor socket_;
};

/// Listens at a free port of all addresses of this machine. Throws Error(kStartup) when it cannot.
class TcpListener {
 public:
  TcpListener();

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// The next connection, if one is waiting.
  [[nodiscard]] std::optional<TcpSocket> accept() const;

 private:
  Descriptor socket_;
  std::uint16_t port_ = 0;
};

}  // namespace hora
