#include "base/tcp.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/open_files.h"

namespace hora {
namespace {

constexpr int kWaitingConnections = 128;

[[noreturn]] void raise_system(const char* what) {
  raise(ErrorKind::kStartup, "{}: {}", what, describe_error(errno));
}

Descriptor make_socket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// An address of either family with a port, as the system takes it.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = sizeof(sockaddr_storage);

  Endpoint() = default;
  Endpoint(const IpAddress& ip, std::uint16_t port) {
    if (ip.family == IpAddress::Family::kV6) {
      sockaddr_in6 v6{};
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(port);
      std::memcpy(&v6.sin6_addr, ip.bytes.data(), sizeof(v6.sin6_addr));
      set(v6);
    } else {
      sockaddr_in v4{};
      v4.sin_family = AF_INET;
      v4.sin_port = htons(port);
      std::memcpy(&v4.sin_addr, ip.bytes.data(), sizeof(v4.sin_addr));
      set(v4);
    }
  }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
  [[nodiscard]] std::uint16_t port() const {
    // The port is at the same place in both families.
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof(v4));
    return ntohs(v4.sin_port);
  }

 private:
  template <typename T>
  void set(const T& one) {
    std::memcpy(&address, &one, sizeof(one));
    length = sizeof(one);
  }
};

/// Addresses that need the name of an interface beside them, which differs between machines, are left out.
std::optional<IpAddress> ip_of(const sockaddr* address) {
  IpAddress ip;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof(v4));
    std::memcpy(ip.bytes.data(), &v4.sin_addr, sizeof(v4.sin_addr));
    return ip;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6{};
  std::memcpy(&v6, address, sizeof(v6));
  if (v6.sin6_scope_id != 0) return std::nullopt;
  ip.family = IpAddress::Family::kV6;
  std::memcpy(ip.bytes.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
  return ip;
}

/// IPv6 sockets take IPv4 connections as well, but a machine may have only one of the two.
Descriptor bind_anywhere() {
  Descriptor v6 = make_socket(AF_INET6);
  const int no = 0;
  IpAddress any{.family = IpAddress::Family::kV6};
  Endpoint everywhere(any, 0);
  if (v6 && setsockopt(v6.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)) == 0 &&
      bind(v6.get(), everywhere.get(), everywhere.length) == 0)
    return v6;
  Descriptor v4 = make_socket(AF_INET);
  if (!v4) raise_system("a TCP socket cannot be made");
  any.family = IpAddress::Family::kV4;
  everywhere = Endpoint(any, 0);
  if (bind(v4.get(), everywhere.get(), everywhere.length) != 0) raise_system("a TCP socket cannot be bound");
  return v4;
}

}  // namespace

std::vector<IpAddress> own_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<IpAddress> outside;
  std::vector<IpAddress> loopback;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const std::optional<IpAddress> ip = ip_of(each->ifa_addr);
    if (ip) ((each->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : outside).push_back(*ip);
  }
  outside.insert(outside.end(), loopback.begin(), loopback.end());
  return outside;
}

std::optional<TcpSocket> TcpSocket::connect(const IpAddress& address, std::uint16_t port) {
  Descriptor socket = make_socket(address.family == IpAddress::Family::kV6 ? AF_INET6 : AF_INET);
  if (!socket) return std::nullopt;
  Endpoint there(address, port);
  if (::connect(socket.get(), there.get(), there.length) != 0 && errno != EINPROGRESS) return std::nullopt;
  return TcpSocket(std::move(socket));
}

TcpSocket::TcpSocket(Descriptor socket) : socket_(std::move(socket)) {
  const int yes = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

bool TcpSocket::connected() const {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) return false;
  Endpoint there;
  return getpeername(socket_.get(), there.get(), &there.length) == 0;
}

bool TcpSocket::send(std::span<const std::byte> data) const {
  const ssize_t count = ::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return count == static_cast<ssize_t>(data.size());
}

std::optional<std::size_t> TcpSocket::receive(std::span<std::byte> data) const {
  const ssize_t count = ::recv(socket_.get(), data.data(), data.size(), MSG_DONTWAIT);
  if (count > 0) return static_cast<std::size_t>(count);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return std::nullopt;
}

TcpListener::TcpListener() : socket_(bind_anywhere()) {
  if (listen(socket_.get(), kWaitingConnections) != 0) raise_system("listen");
  Endpoint here;
  if (getsockname(socket_.get(), here.get(), &here.length) != 0) raise_system("getsockname");
  port_ = here.port();
}

std::optional<TcpSocket> TcpListener::accept() const {
  Descriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return std::nullopt;
  return TcpSocket(std::move(socket));
}

}  // namespace hora
