#include "base/socket.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/open_files.h"

namespace hora {
namespace {

// The kernel passes at most 253 descriptors with one message.
constexpr std::size_t kDescriptorsPerMessage = 128;

[[noreturn]] void raise_system(const char* what) {
  raise(ErrorKind::kStartup, "{}: {}", what, describe_error(errno));
}

Descriptor make_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) raise_system("a Unix socket cannot be made");
  return socket;
}

std::string secret_name() {
  std::array<std::uint64_t, 2> secret{};
  if (getrandom(secret.data(), sizeof(secret), 0) != sizeof(secret)) raise_system("getrandom");
  return fmt::format("hora-{:016x}{:016x}", secret[0], secret[1]);
}

struct Address {
  sockaddr_un address{};
  socklen_t length;

  /// In the abstract namespace, which begins with a zero byte.
  explicit Address(const std::string& name) {
    address.sun_family = AF_UNIX;
    const std::size_t count = std::min(name.size(), sizeof(address.sun_path) - 1);
    std::memcpy(address.sun_path + 1, name.data(), count);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

bool is_this_user(const Descriptor& socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

void wait_until_ready(int socket, short event, TimePoint deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()) +
                      std::chrono::milliseconds(1);
    if (left <= std::chrono::milliseconds(0))
      raise(ErrorKind::kStartup, "another process of this host did not answer in time");
    pollfd ready{socket, event, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1000)));
    if (count > 0) return;
    if (count < 0 && errno != EINTR) raise_system("poll");
  }
}

[[noreturn]] void raise_hang_up() {
  raise(ErrorKind::kStartup, "another process of this host gave up or ended");
}

}  // namespace

LocalSocket LocalSocket::connect(const std::string& name, TimePoint deadline) {
  Descriptor socket = make_socket();
  const Address address(name);
  while (::connect(socket.get(), address.get(), address.length) != 0) {
    // A full queue of waiting connections says EAGAIN and cannot be polled for.
    if ((errno != EAGAIN && errno != EINTR) || Clock::now() > deadline)
      raise_system("connecting to a process of this host");
    poll(nullptr, 0, 1);
  }
  if (!is_this_user(socket)) raise(ErrorKind::kStartup, "a process of another user answered");
  return LocalSocket(std::move(socket));
}

void LocalSocket::wait_for(short event, TimePoint deadline) const {
  wait_until_ready(socket_.get(), event, deadline);
}

void LocalSocket::send(std::span<const std::byte> data, TimePoint deadline) const {
  while (!data.empty()) {
    const ssize_t count = ::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL);
    if (count > 0) {
      data = data.subspan(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_for(POLLOUT, deadline);
    } else {
      raise_hang_up();
    }
  }
}

void LocalSocket::receive(std::span<std::byte> data, TimePoint deadline) const {
  while (!data.empty()) {
    const ssize_t count = ::recv(socket_.get(), data.data(), data.size(), 0);
    if (count > 0) {
      data = data.subspan(static_cast<std::size_t>(count));
    } else if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      wait_for(POLLIN, deadline);
    } else {
      raise_hang_up();
    }
  }
}

void LocalSocket::send_descriptors(std::span<const int> descriptors, TimePoint deadline) const {
  while (!descriptors.empty()) {
    const auto some = descriptors.first(std::min(descriptors.size(), kDescriptorsPerMessage));
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsPerMessage)> control{};
    char carrier = 0;
    iovec data{&carrier, 1};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(some.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(some.size_bytes());
    std::memcpy(CMSG_DATA(header), some.data(), some.size_bytes());
    while (sendmsg(socket_.get(), &message, MSG_NOSIGNAL) != 1) {
      if (errno == ETOOMANYREFS && Clock::now() < deadline) {
        poll(nullptr, 0, 1);  // until others have taken theirs
      } else if (errno == EAGAIN || errno == EINTR) {
        wait_for(POLLOUT, deadline);
      } else {
        raise_system("handing over a descriptor");
      }
    }
    descriptors = descriptors.subspan(some.size());
  }
}

std::vector<Descriptor> LocalSocket::receive_descriptors(std::size_t count, TimePoint deadline) const {
  std::vector<Descriptor> received;
  while (received.size() < count) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsPerMessage)> control{};
    char carrier = 0;
    iovec data{&carrier, 1};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t length = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
      wait_for(POLLIN, deadline);
      continue;
    }
    if (length <= 0) raise_hang_up();
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_type != SCM_RIGHTS)
      raise(ErrorKind::kStartup, "descriptors could not be received: {}", describe_error(EMFILE));
    std::array<int, kDescriptorsPerMessage> numbers{};
    const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
    std::memcpy(numbers.data(), CMSG_DATA(header), bytes);
    for (std::size_t at = 0; at < bytes / sizeof(int); ++at) received.emplace_back(numbers[at]);
    if ((message.msg_flags & MSG_CTRUNC) != 0)
      raise(ErrorKind::kStartup, "{} descriptors could not be received: {}", count, describe_error(EMFILE));
  }
  return received;
}

LocalListener::LocalListener() : name_(secret_name()), socket_(make_socket()) {
  const Address address(name_);
  if (bind(socket_.get(), address.get(), address.length) != 0) raise_system("a Unix socket cannot be bound");
  if (listen(socket_.get(), 1024) != 0) raise_system("listen");
}

LocalSocket LocalListener::accept(TimePoint deadline) const {
  for (;;) {
    Descriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket && is_this_user(socket)) return LocalSocket(std::move(socket));
    if (!socket && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
      raise_system("accepting a connection");
    wait_until_ready(socket_.get(), POLLIN, deadline);
  }
}

}  // namespace hora
